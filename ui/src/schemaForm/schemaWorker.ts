/** The thread of `schemaErrors`. */
import { type Check, errorsOf } from "./schemaErrors";

self.onmessage = ({ data }: MessageEvent<Check>) => self.postMessage(errorsOf(data));
