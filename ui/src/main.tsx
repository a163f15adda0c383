import "./app/theme";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { loadPart } from "./app/loading";
import { parseHash } from "./app/router";
import { findScreen } from "./app/screens";

// The screen loads while the rest of the page is rendered.
const first = findScreen(parseHash(location.hash).path);
if (first) loadPart(first.screen.load).catch(() => undefined);

const root = document.getElementById("root");
if (root)
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
