// Upload a file with progress: fetch cannot report how much of a body was sent.
import { problemOf, proof, signedIn, unreachable } from "./client";

type How = {
  /** The idempotency key: the same for a retry, so that it is there once. */
  key: string;
  signal: AbortSignal;
  /** Told how much was sent, from 0 to 1; at 1 the server has it all and works on it. */
  progress: (part: number) => void;
};

/** Send a file's content and give what the server answers. */
export const upload = <T>(where: string, file: Blob, how: How) => signedIn(() => send<T>(where, file, how));

function send<T>(where: string, file: Blob, { key, signal, progress }: How): Promise<T> {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open("POST", where);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.setRequestHeader("Idempotency-Key", key);
    for (const [name, value] of proof()) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.upload.onload = () => progress(1);
    request.onerror = () => fail(unreachable());
    request.onabort = () => fail(signal.reason);
    request.onload = () => {
      if (request.status < 300) done(JSON.parse(request.responseText));
      else fail(problemOf(request.status, request.responseText, request.getResponseHeader("Retry-After")));
    };
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
