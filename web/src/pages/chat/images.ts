// Images to send: the first bytes determine the type, and each image has a size limit.
export const MAX_IMAGES = 8;
const MAX_IMAGE_BYTES = 8 << 20;
export const ACCEPTED = "image/png,image/jpeg,image/gif,image/webp";

/** The media type of an image by its first bytes, as the server detects it; '' for anything else. */
function mediaOf(data: Uint8Array): string {
  const text = String.fromCharCode(...data.subarray(0, 12));
  if (text.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (text.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (/^GIF8[79]a/.test(text)) return "image/gif";
  return /^RIFF.{4}WEBP/s.test(text) ? "image/webp" : "";
}

/** Read files as data URLs; `error` says why some cannot be sent. */
export async function readImages(files: readonly File[]): Promise<{ images: string[]; error: string }> {
  const images: string[] = [];
  let error = "";
  for (const file of files) {
    const name = file.name || "This";
    if (file.size > MAX_IMAGE_BYTES) error = `${name} is larger than 8 MiB.`;
    else if (!mediaOf(new Uint8Array(await file.slice(0, 12).arrayBuffer())))
      error = `${name} is not a PNG, JPEG, GIF or WebP image.`;
    else images.push(await dataUrl(file));
  }
  return { images, error };
}

function dataUrl(file: File): Promise<string> {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result));
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(file);
  });
}
