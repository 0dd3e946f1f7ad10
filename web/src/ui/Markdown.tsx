// Render Markdown as elements. Stored text is untrusted: HTML is shown as text, and an image becomes a link that is not
// loaded automatically, because the address of an image can leak data.
import type { Nodes, Parent, TableRow } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";
import { createContext, Fragment, memo, type ReactNode, useContext } from "react";
import { heavy } from "./heavy";

const PARSE = { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] };

/** The lines of the text (from 1) that changed recently; their elements are marked. */
export const Changed = createContext<ReadonlySet<number> | null>(null);

/** Rendered Markdown. `inline` renders plain text, for example with references as chips. */
export const Markdown = memo(function Markdown({
  text,
  inline,
}: {
  text: string;
  inline?: (text: string) => ReactNode;
}) {
  try {
    if (!heavy(text)) return <div className="markdown">{blocks(text, inline)}</div>;
  } catch {
    // nested too deeply for the parser or the browser: show the text unrendered
  }
  return <pre className="plain">{text}</pre>;
});

function blocks(text: string, inline: Inline): ReactNode {
  const root = fromMarkdown(text, PARSE);
  const links: Links = new Map();
  for (const node of root.children) if (node.type === "definition") links.set(node.identifier, node.url);
  return root.children.map((node, index) => (
    <Block key={index} node={node}>
      {element(node, { inline, links })}
    </Block>
  ));
}

/** A block of the document; in a list, the items are marked instead. */
function Block({ node, children }: { node: Nodes; children: ReactNode }) {
  const changed = useChanged(node);
  return changed && node.type !== "list" ? <div className="changed">{children}</div> : children;
}

function ListItem({ node, children }: { node: Nodes; children: ReactNode }) {
  const changed = useChanged(node);
  return <li className={changed ? "changed" : undefined}>{children}</li>;
}

function useChanged(node: Nodes): boolean {
  const lines = useContext(Changed);
  if (!lines?.size || !node.position) return false;
  const { start, end } = node.position;
  for (let line = start.line; line <= end.line; line++) if (lines.has(line)) return true;
  return false;
}

type Inline = ((text: string) => ReactNode) | undefined;
/** The addresses of reference-style links, by name. */
type Links = Map<string, string>;
type RenderOptions = { inline: Inline; links: Links };

function children(node: Parent, options: RenderOptions): ReactNode {
  return node.children.map((child, index) => <Fragment key={index}>{element(child as Nodes, options)}</Fragment>);
}

function element(node: Nodes, options: RenderOptions): ReactNode {
  switch (node.type) {
    case "text":
      return options.inline ? options.inline(node.value) : node.value;
    case "html":
      return node.value;
    case "paragraph":
      return <p>{children(node, options)}</p>;
    case "heading":
      return <Heading depth={node.depth}>{children(node, options)}</Heading>;
    case "emphasis":
      return <em>{children(node, options)}</em>;
    case "strong":
      return <strong>{children(node, options)}</strong>;
    case "delete":
      return <del>{children(node, options)}</del>;
    case "inlineCode":
      return <code>{node.value}</code>;
    case "code":
      return (
        <pre>
          <code>{node.value}</code>
        </pre>
      );
    case "blockquote":
      return <blockquote>{children(node, options)}</blockquote>;
    case "list":
      return node.ordered ? (
        <ol start={node.start ?? 1}>{children(node, options)}</ol>
      ) : (
        <ul>{children(node, options)}</ul>
      );
    case "listItem":
      return (
        <ListItem node={node}>
          {node.checked !== null && node.checked !== undefined && (node.checked ? "☑ " : "☐ ")}
          {children(node, options)}
        </ListItem>
      );
    case "link":
      return <ExternalLink href={node.url}>{children(node, options)}</ExternalLink>;
    case "image":
      return <ExternalLink href={node.url}>[image: {node.alt || node.url}]</ExternalLink>;
    case "table":
      return (
        <div className="table">
          <table>
            <thead>{row(node.children[0], options, "th")}</thead>
            <tbody>{node.children.slice(1).map((line, index) => row(line, options, "td", index))}</tbody>
          </table>
        </div>
      );
    case "break":
      return <br />;
    case "thematicBreak":
      return <hr />;
    case "linkReference":
      return <ExternalLink href={options.links.get(node.identifier) ?? ""}>{children(node, options)}</ExternalLink>;
    case "imageReference":
      return (
        <ExternalLink href={options.links.get(node.identifier) ?? ""}>
          [image: {node.alt || node.identifier}]
        </ExternalLink>
      );
    case "footnoteReference":
      return `[^${node.identifier}]`;
    case "footnoteDefinition":
      return children(node, options);
    case "definition":
      return `[${node.identifier}]: ${node.url}`;
    default:
      return "children" in node ? children(node as Parent, options) : "value" in node ? String(node.value) : null;
  }
}

function row(line: TableRow | undefined, options: RenderOptions, Cell: "th" | "td", key?: number): ReactNode {
  return (
    <tr key={key}>
      {line?.children.map((cell, index) => (
        <Cell key={index}>{children(cell, options)}</Cell>
      ))}
    </tr>
  );
}

/** A heading, two levels below those of the page. */
function Heading({ depth, children }: { depth: number; children: ReactNode }) {
  const Tag = `h${Math.min(depth + 2, 6)}` as "h3";
  return <Tag>{children}</Tag>;
}

/** An external link; only http, https and mailto addresses become links. */
function ExternalLink({ href, children }: { href: string; children: ReactNode }) {
  if (!/^(https?:|mailto:)/i.test(href)) return <span title={href}>{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow" title={href}>
      {children}
    </a>
  );
}
