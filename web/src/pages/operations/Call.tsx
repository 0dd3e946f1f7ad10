// One call of a model, all of it; and the way to why its answer was what it was.
import { get } from "../../api/client";
import type { Interaction } from "../../api/index";
import { useLoad } from "../../api/load";
import { to } from "../../app/route";
import { duration, money } from "../../ui/chart";
import { Dialog } from "../../ui/Dialog";
import { Link } from "../../ui/Link";
import { count, moment } from "../../ui/time";
import { Facts } from "./Facts";

export function Call({ call, close }: { call: Interaction; close: () => void }) {
  return (
    <Dialog title={`${call.model}, ${call.route}`} close={close} wide>
      {call.error && (
        <div className="failure">
          <p>{call.error}</p>
        </div>
      )}
      <Facts
        facts={[
          ["When", moment(call.created_at)],
          ["Took", duration(call.latency_ms)],
          ["Tokens in", count(call.tokens_in)],
          ["Tokens out", count(call.tokens_out)],
          ["Cost", call.cost === null ? "unknown" : money(call.cost)],
          ["User", call.user],
          ["Agent", call.agent],
          ["Session", call.session],
          ["Id", call.id],
        ]}
      />
      {call.session && <Ways call={call} session={call.session} />}
      {Object.keys(call.parameters).length > 0 && (
        <>
          <h3>Parameters</h3>
          <pre>{JSON.stringify(call.parameters, null, 2)}</pre>
        </>
      )}
    </Dialog>
  );
}

/** From a call to its turn, if that is among the last of its session; and to the conversation. */
function Ways({ call, session }: { call: Interaction; session: string }) {
  const turn = useLoad(
    async (signal) => {
      const query = { session, user: call.user ?? undefined, limit: 100 };
      const page = await get("/api/turns", { query, signal });
      return page.data.find((one) => one.interaction === call.id);
    },
    [call.id],
  );
  return (
    <p className="toolbar">
      {turn.data && <Link href={to(["why", turn.data.id])}>Why it said that</Link>}
      {call.agent && <Link href={to(["chat", call.agent, session])}>The conversation</Link>}
    </p>
  );
}
