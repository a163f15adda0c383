// The server of the page: it forwards /pyoco to the gateway, and adds the API key, so that no key is in the
// browser. In your application, this is where you check who may see and answer which questions.
const { PYOCO_SERVER = "http://127.0.0.1:8000", PYOCO_API_KEY } = process.env;

export default {
  server: {
    host: "127.0.0.1",
    proxy: {
      "/pyoco": {
        target: PYOCO_SERVER,
        rewrite: (path) => path.slice("/pyoco".length),
        headers: PYOCO_API_KEY ? { "X-API-Key": PYOCO_API_KEY } : {},
      },
    },
  },
};
