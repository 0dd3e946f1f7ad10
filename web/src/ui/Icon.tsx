// The icons: strokes on a grid of 24, in the colour of the text.
const PATHS = {
  chat: "M4 5h16v11H9l-5 4z",
  why: "M12 3a6 6 0 0 0-3.5 10.9V17h7v-3.1A6 6 0 0 0 12 3zM9.5 20.5h5",
  agents: "M12 4v3M6 7h12v9H6zM9.5 11v1M14.5 11v1M9 19h6",
  memory: "M5 4h11l3 3v13H5zM9 10h7M9 14h7",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  operations: "M4 19V5M4 19h16M8 15l3-4 3 2 5-6",
  close: "M6 6l12 12M18 6L6 18",
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  send: "M4 12l16-7-6 15-3-6z",
  stop: "M7 7h10v10H7z",
  edit: "M4 20h4L19 9l-4-4L4 16z",
  remove: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  attach: "M16 6v9a4 4 0 0 1-8 0V6a2.5 2.5 0 0 1 5 0v8",
  light:
    "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5",
  dark: "M20 14A8 8 0 0 1 10 4a8 8 0 1 0 10 10z",
  tool: "M14 6a4 4 0 0 0-5 5l-5 5 4 4 5-5a4 4 0 0 0 5-5l-3 2-3-3z",
  ref: "M7 4h7l4 4v12H7zM14 4v4h4M10 13h5M10 16h5",
  person: "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM4 21c1-5 4-6 8-6s7 1 8 6",
  down: "M6 9l6 6 6-6",
  right: "M9 6l6 6-6 6",
  back: "M15 6l-6 6 6 6",
  check: "M5 12l5 5L19 7",
  history: "M4 12a8 8 0 1 0 3-6.2M4 4v4h4M12 8v4l3 2",
  key: "M8 11a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM11 12l9-8M17 6l2 2",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="picture" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
