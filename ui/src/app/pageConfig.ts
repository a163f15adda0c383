/** What the gateway put into the served page (http_api/routes/dashboard_routes.py). */
const { dataset } = document.documentElement;

export const apiKeyHeader = dataset.apiKeyHeader ?? "X-API-Key";
export const wantsApiKey = dataset.auth === "api_key";
/** Whether the gateway serves a repository for agent requests. */
export const servesRequests = dataset.requests === "true";
export const version = dataset.version ?? "";
