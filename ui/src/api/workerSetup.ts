/** How a worker joins this installation: only some keys may know where NATS is. */
import { useKnownAccess } from "./access";
import { api } from "./client";
import { useRead } from "./queries";

export function useWorkerSetup() {
  const may = useKnownAccess("GET /worker-setup");
  const { data } = useRead(["worker-setup"], (signal) => api.GET("/worker-setup", { signal }), {
    enabled: may === true,
  });
  return { may: may ?? true, setup: data };
}
