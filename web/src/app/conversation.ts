// The name of a conversation, the same on every page: its label, or else its first words.
import type { ChatSession } from "../api/index";

export const conversationName = (session: Pick<ChatSession, "title">): string =>
  session.title || "Untitled conversation";
