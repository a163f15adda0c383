import "./styles/tokens.css";
import "./styles/base.css";
import "./app/theme";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { parseHash } from "./app/router";
import { findScreen, loadScreen } from "./app/screens";

// After an update of the gateway, the screens of the old page are gone: the new page has the new ones.
window.addEventListener("vite:preloadError", () => window.location.reload());

// The screen is on its way while the rest of the page is drawn; what fails is shown in its place.
const first = findScreen(parseHash(location.hash).path);
if (first) loadScreen(first.screen).catch(() => undefined);

const root = document.getElementById("root");
if (root)
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
