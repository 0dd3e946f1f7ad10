// The images of a message. They are loaded as data and shown from memory: nothing is fetched from other hosts.
import { useEffect, useState } from "react";
import { address, fetched } from "../../api/client";
import { useWho } from "../../app/who";
import { RefChip } from "../../refs/RefText";
import css from "./chat.module.css";
import type { Picture } from "./said";

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
  const { user } = useWho();
  const [shown, setShown] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let made = "";
    fetched(address("/api/refs/{key}/content", { key: picture.key }, { user }), { signal: stop.signal })
      .then((answer) => answer.arrayBuffer())
      .then((data) => {
        if (stop.signal.aborted) return;
        made = URL.createObjectURL(new Blob([data], { type: picture.media }));
        setShown(made);
      })
      .catch(() => {}); // what cannot be had stays a chip, which says why when it is opened
    return () => {
      stop.abort();
      if (made) URL.revokeObjectURL(made);
    };
  }, [picture.key, picture.media, user]);
  if (!shown) return <RefChip refKey={picture.key} description="Image" />;
  return <img src={shown} alt="Attached to this message" />;
}
