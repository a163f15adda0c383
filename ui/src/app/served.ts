/** What the gateway said about itself in the page that it served (http_api/dashboard.py). */
const { dataset } = document.documentElement;

export const apiKeyHeader = dataset.apiKeyHeader ?? "X-API-Key";
export const wantsApiKey = dataset.auth === "api_key";
export const version = dataset.version ?? "";
