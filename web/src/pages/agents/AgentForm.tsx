// The fields of an agent: prompt, model, tools, colour and icon.
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { Field } from "../../ui/Field";
import css from "./agents.module.css";
import type { Draft } from "./draft";
import { Looks } from "./Looks";

type Props = { name: string; draft: Draft; change: (draft: Draft) => void; disabled?: boolean };

/** The name in the list of an agent that may call no tools; an empty list means all memory tools. */
const NO_TOOLS = "none";

export function AgentForm({ name, draft, change, disabled = false }: Props) {
  const { server } = useApp();
  const models = useLoad((signal) => get("/api/models", { signal }), []).data?.models ?? [];
  const set = (part: Partial<Draft>) => change({ ...draft, ...part });
  return (
    <fieldset className={`${css.parts} ${css.agentFields}`} disabled={disabled}>
      <legend className="visually-hidden">Configuration</legend>
      <Field
        label="Prompt"
        hint={`The agent’s instructions for every conversation. If this is empty: “You are ${name || "NAME"}.” Write {long_term_memory_notes} where the notes about the user should appear; without it, they are added at the end.`}
      >
        <textarea
          rows={10}
          value={draft.prompt}
          onChange={(event) => set({ prompt: event.target.value })}
          placeholder={`For example: You are ${name || "Scout"}. You help to plan trips, and you ask before you book.`}
        />
      </Field>
      <Field
        label="Model"
        hint={server.model ? `Empty: the main model, ${server.model}.` : "Empty: the main model, once it is set."}
      >
        <input
          value={draft.model}
          onChange={(event) => set({ model: event.target.value })}
          placeholder={server.model ?? "main model"}
          list="agent-models"
          autoComplete="off"
          spellCheck={false}
        />
      </Field>
      <datalist id="agent-models">
        {models.map((id) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      <Field label="Shown as" hint="A display name. Leave it empty to show the model’s own name.">
        <input
          value={draft.model_label}
          onChange={(event) => set({ model_label: event.target.value })}
          autoComplete="off"
        />
      </Field>
      <label className="check">
        <input type="checkbox" checked={draft.active} onChange={(event) => set({ active: event.target.checked })} />{" "}
        Active: the agent answers in chats
      </label>
      <Tools chosen={draft.tools} change={(tools) => set({ tools })} />
      <Looks name={name} color={draft.color} icon={draft.icon} change={set} />
    </fieldset>
  );
}

/** The choice between all memory tools, selected tools and none. */
function Tools({ chosen: stored, change }: { chosen: string[]; change: (tools: string[]) => void }) {
  const { server } = useApp();
  const noTools = stored.includes(NO_TOOLS);
  const chosen = stored.filter((name) => name !== NO_TOOLS);
  const unknown = chosen.filter((name) => !server.tools.some((tool) => tool.name === name));
  const tools = [...server.tools, ...unknown.map((name) => ({ name, description: "This server has no such tool." }))];
  const allTools = stored.length === 0;
  const turn = (name: string, on: boolean) => {
    const next = on ? [...chosen, name] : chosen.filter((other) => other !== name);
    change(next.length ? next : [NO_TOOLS]);
  };
  return (
    <fieldset className={`${css.parts} ${css.agentTools}`}>
      <legend>Tools</legend>
      <p className="quiet">Tools that the agent can call in a chat.</p>
      <div className={css.toolChoice}>
        <label className="check">
          <input type="radio" name="which-tools" checked={allTools} onChange={() => change([])} /> All memory tools
        </label>
        <label className="check">
          <input
            type="radio"
            name="which-tools"
            checked={!allTools && !noTools}
            onChange={() => change(tools.map((tool) => tool.name))}
          />{" "}
          Only selected tools
        </label>
        <label className="check">
          <input type="radio" name="which-tools" checked={noTools} onChange={() => change([NO_TOOLS])} /> No tools
        </label>
      </div>
      {!allTools && !noTools && (
        <ul>
          {tools.map((tool) => (
            <li key={tool.name}>
              <label className="check">
                <input
                  type="checkbox"
                  className={css.toolBox}
                  checked={chosen.includes(tool.name)}
                  onChange={(event) => turn(tool.name, event.target.checked)}
                />
                <span>
                  <code>{tool.name}</code> <span className="quiet">{tool.description}</span>
                </span>
              </label>
            </li>
          ))}
        </ul>
      )}
    </fieldset>
  );
}
