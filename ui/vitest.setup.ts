/** The tests of all files share one document: each removes what it has rendered, or a later test would find it. */
import { cleanup } from "@testing-library/react";
import { afterEach } from "vitest";

afterEach(cleanup);
