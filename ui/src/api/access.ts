/** What the key of this page may do. */
import { api } from "./client";
import { useRead } from "./queries";

/** Whether the key may use an endpoint, such as `POST /resume`; true until that is known. */
export function useMay(endpoint: string): boolean {
  const { data } = useRead(["key-access"], (signal) => api.GET("/key", { signal }));
  return data?.endpoints.includes(endpoint) ?? true;
}
