// Markdown as elements. Whatever was stored is text: HTML in it is shown as it was written, and an image is a link that
// nobody follows by itself, because a picture's address can carry away what was read.
import type { Nodes, Parent, TableRow } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";
import { createContext, Fragment, memo, type ReactNode, useContext } from "react";

const PARSE = { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] };
const MOST = 200_000;
const MARKS = 4_000; // in one paragraph: nobody writes so, and a browser would stand still over it

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
  if (text.length > MOST || heavy(text)) return <pre className="plain">{text}</pre>;
  const root = fromMarkdown(text, PARSE);
  return (
    <div className="markdown">
      {root.children.map((node, place) => (
        <Block key={place} node={node}>
          {element(node, inline)}
        </Block>
      ))}
    </div>
  );
});

/** Whether a text was made to be laborious: shown as it is, it costs nothing. */
const heavy = (text: string) =>
  /^[ \t>]{150}/m.test(text) ||
  text.split(/\n\s*\n/).some((part) => part.length > MARKS && (part.match(/[*_~`[\]<>|]/g)?.length ?? 0) > MARKS);

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

function children(node: Parent, inline: Inline): ReactNode {
  return node.children.map((child, place) => <Fragment key={place}>{element(child as Nodes, inline)}</Fragment>);
}

function element(node: Nodes, inline: Inline): ReactNode {
  switch (node.type) {
    case "text":
      return inline ? inline(node.value) : node.value;
    case "html":
      return node.value;
    case "paragraph":
      return <p>{children(node, inline)}</p>;
    case "heading":
      return <Heading depth={node.depth}>{children(node, inline)}</Heading>;
    case "emphasis":
      return <em>{children(node, inline)}</em>;
    case "strong":
      return <strong>{children(node, inline)}</strong>;
    case "delete":
      return <del>{children(node, inline)}</del>;
    case "inlineCode":
      return <code>{node.value}</code>;
    case "code":
      return (
        <pre>
          <code>{node.value}</code>
        </pre>
      );
    case "blockquote":
      return <blockquote>{children(node, inline)}</blockquote>;
    case "list":
      return node.ordered ? (
        <ol start={node.start ?? 1}>{children(node, inline)}</ol>
      ) : (
        <ul>{children(node, inline)}</ul>
      );
    case "listItem":
      return (
        <Point node={node}>
          {node.checked !== null && node.checked !== undefined && (node.checked ? "☑ " : "☐ ")}
          {children(node, inline)}
        </Point>
      );
    case "link":
      return <Outside href={node.url}>{children(node, inline)}</Outside>;
    case "image":
      return <Outside href={node.url}>[image: {node.alt || node.url}]</Outside>;
    case "table":
      return (
        <div className="table">
          <table>
            <thead>{row(node.children[0], inline, "th")}</thead>
            <tbody>{node.children.slice(1).map((line, place) => row(line, inline, "td", place))}</tbody>
          </table>
        </div>
      );
    case "break":
      return <br />;
    case "thematicBreak":
      return <hr />;
    case "linkReference":
      return children(node, inline);
    case "imageReference":
      return `[image: ${node.alt ?? node.identifier}]`;
    case "footnoteReference":
      return `[^${node.identifier}]`;
    case "footnoteDefinition":
      return children(node, inline);
    case "definition":
      return `[${node.identifier}]: ${node.url}`;
    default:
      return "children" in node ? children(node as Parent, inline) : "value" in node ? String(node.value) : null;
  }
}

function row(line: TableRow | undefined, inline: Inline, Cell: "th" | "td", key?: number): ReactNode {
  return (
    <tr key={key}>
      {line?.children.map((cell, place) => (
        <Cell key={place}>{children(cell, inline)}</Cell>
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
