/** What the key of this page may do. */
import { api } from "./client";
import { useRead } from "./queries";

/** Whether the key may use an endpoint, such as `POST /resume`; true until that is known. */
export const useMay = (endpoint: string): boolean => useKnownAccess(endpoint) ?? true;

/** The same; undefined until it is known. */
export function useKnownAccess(endpoint: string): boolean | undefined {
  const { data } = useRead(["key-access"], (signal) => api.GET("/key", { signal }));
  return data?.endpoints.includes(endpoint);
}
