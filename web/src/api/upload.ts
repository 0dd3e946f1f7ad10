// Upload a file with progress: fetch cannot report how much of a body was sent.
import { csrfHeaders, problemOf, unreachable, withSignIn } from "./client";

type UploadOptions = {
  /** The idempotency key: a retry uses the same one, so that the file is stored once. */
  key: string;
  signal: AbortSignal;
  /** Called with the fraction sent, from 0 to 1; at 1 the server processes the file. */
  progress: (part: number) => void;
};

/** Send a file and return the server's response. */
export const upload = <T>(url: string, file: Blob, options: UploadOptions) =>
  withSignIn(() => send<T>(url, file, options));

function send<T>(url: string, file: Blob, { key, signal, progress }: UploadOptions): Promise<T> {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open("POST", url);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.setRequestHeader("Idempotency-Key", key);
    for (const [name, value] of csrfHeaders()) request.setRequestHeader(name, value);
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
