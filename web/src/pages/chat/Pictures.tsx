// The images of a message. They are loaded as data and shown from memory: nothing is fetched from other hosts.
import { useEffect, useState } from "react";
import { address, fetchSignedIn } from "../../api/client";
import { useApp } from "../../app/context";
import { RefChip } from "../../refs/RefText";
import css from "./chat.module.css";
import type { Picture } from "./content";

export function Pictures({ of }: { of: Picture[] }) {
  if (!of.length) return null;
  return (
    <div className={css.pictures}>
      {of.map((picture) => (
        <Stored key={picture.key} picture={picture} />
      ))}
    </div>
  );
}

function Stored({ picture }: { picture: Picture }) {
  const { user } = useApp();
  const [shown, setShown] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let url = "";
    fetchSignedIn(address("/api/refs/{key}/content", { key: picture.key }, { user }), { signal: stop.signal })
      .then((answer) => answer.arrayBuffer())
      .then((data) => {
        if (stop.signal.aborted) return;
        url = URL.createObjectURL(new Blob([data], { type: picture.media }));
        setShown(url);
      })
      .catch(() => {}); // a failed image stays a chip that shows the error when opened
    return () => {
      stop.abort();
      if (url) URL.revokeObjectURL(url);
    };
  }, [picture.key, picture.media, user]);
  if (!shown) return <RefChip refKey={picture.key} description="Image" />;
  return <img src={shown} alt="Attached to this message" />;
}
