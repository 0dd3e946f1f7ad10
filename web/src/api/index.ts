// The records of the API, under their names in the OpenAPI document.
import type { components } from "./schema";

type Records = components["schemas"];
export type Agent = Records["Agent"];
export type ChatSession = Records["ChatSession"];
export type Consolidation = Records["Consolidation"];
export type ContextAnswer = Records["ContextAnswer"];
export type AuditRecord = Records["AuditRecord"];
export type Document = Records["Document"];
export type Entry = Records["Entry"];
export type SearchResults = Records["SearchResults"];
export type Hit = Records["Hit"];
export type Interaction = Records["Interaction"];
export type Item = Records["Item"];
export type Key = Records["Key"];
export type Message = Records["Message"];
export type Note = Records["Note"];
export type NoteVersion = Records["NoteVersion"];
export type Receipt = Records["Receipt"];
export type Ref = Records["Ref"];
export type Reply = Records["Reply"];
export type Report = Records["ReportShape"];
export type Status = Records["Status"];
export type StoredUser = Records["StoredUser"];
export type Summary = Records["Summary"];
export type Total = Records["Total"];
export type Turn = Records["Turn"];
export type View = Records["View"];
