// Render Markdown as elements. Stored text is untrusted: HTML is shown as text, and an image becomes a link that is not
// loaded automatically, because the address of an image can leak data.
import type { Nodes, Parent, TableRow } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";
import { createContext, Fragment, memo, type ReactNode, useContext } from "react";
import { heavy } from "./heavy";

const PARSE = { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] };

/** Which lines of the text (from 1) changed a moment ago: what stands on them is marked. */
export const Changed = createContext<ReadonlySet<number> | null>(null);

/** Text that may have Markdown in it. `inline` turns pieces of plain text into elements of one's own (references, marks). */
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
    // nested deeper than the parser or a browser can follow: no text takes its page away
  }
  return <pre className="plain">{text}</pre>;
});

function blocks(text: string, inline: Inline): ReactNode {
  const root = fromMarkdown(text, PARSE);
  const links: Links = new Map();
  for (const node of root.children) if (node.type === "definition") links.set(node.identifier, node.url);
  return root.children.map((node, place) => (
    <Block key={place} node={node}>
      {element(node, { inline, links })}
    </Block>
  ));
}

/** A part of the document; a list is marked by its items. */
function Block({ node, children }: { node: Nodes; children: ReactNode }) {
  const changed = useChanged(node);
  return changed && node.type !== "list" ? <div className="changed">{children}</div> : children;
}

function Point({ node, children }: { node: Nodes; children: ReactNode }) {
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
type How = { inline: Inline; links: Links };

function children(node: Parent, how: How): ReactNode {
  return node.children.map((child, place) => <Fragment key={place}>{element(child as Nodes, how)}</Fragment>);
}

function element(node: Nodes, how: How): ReactNode {
  switch (node.type) {
    case "text":
      return how.inline ? how.inline(node.value) : node.value;
    case "html":
      return node.value;
    case "paragraph":
      return <p>{children(node, how)}</p>;
    case "heading":
      return <Heading depth={node.depth}>{children(node, how)}</Heading>;
    case "emphasis":
      return <em>{children(node, how)}</em>;
    case "strong":
      return <strong>{children(node, how)}</strong>;
    case "delete":
      return <del>{children(node, how)}</del>;
    case "inlineCode":
      return <code>{node.value}</code>;
    case "code":
      return (
        <pre>
          <code>{node.value}</code>
        </pre>
      );
    case "blockquote":
      return <blockquote>{children(node, how)}</blockquote>;
    case "list":
      return node.ordered ? <ol start={node.start ?? 1}>{children(node, how)}</ol> : <ul>{children(node, how)}</ul>;
    case "listItem":
      return (
        <Point node={node}>
          {node.checked !== null && node.checked !== undefined && (node.checked ? "☑ " : "☐ ")}
          {children(node, how)}
        </Point>
      );
    case "link":
      return <Outside href={node.url}>{children(node, how)}</Outside>;
    case "image":
      return <Outside href={node.url}>[image: {node.alt || node.url}]</Outside>;
    case "table":
      return (
        <div className="table">
          <table>
            <thead>{row(node.children[0], how, "th")}</thead>
            <tbody>{node.children.slice(1).map((line, place) => row(line, how, "td", place))}</tbody>
          </table>
        </div>
      );
    case "break":
      return <br />;
    case "thematicBreak":
      return <hr />;
    case "linkReference":
      return <Outside href={how.links.get(node.identifier) ?? ""}>{children(node, how)}</Outside>;
    case "imageReference":
      return <Outside href={how.links.get(node.identifier) ?? ""}>[image: {node.alt || node.identifier}]</Outside>;
    case "footnoteReference":
      return `[^${node.identifier}]`;
    case "footnoteDefinition":
      return children(node, how);
    case "definition":
      return `[${node.identifier}]: ${node.url}`;
    default:
      return "children" in node ? children(node as Parent, how) : "value" in node ? String(node.value) : null;
  }
}

function row(line: TableRow | undefined, how: How, Cell: "th" | "td", key?: number): ReactNode {
  return (
    <tr key={key}>
      {line?.children.map((cell, place) => (
        <Cell key={place}>{children(cell, how)}</Cell>
      ))}
    </tr>
  );
}

/** A heading below those of the page itself. */
function Heading({ depth, children }: { depth: number; children: ReactNode }) {
  const Tag = `h${Math.min(depth + 2, 6)}` as "h3";
  return <Tag>{children}</Tag>;
}

/** A link to elsewhere, if it is one that only opens a page. */
function Outside({ href, children }: { href: string; children: ReactNode }) {
  if (!/^(https?:|mailto:)/i.test(href)) return <span title={href}>{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow" title={href}>
      {children}
    </a>
  );
}
