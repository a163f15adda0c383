import { expect, it } from "vitest";
import { storedValue } from "./store";

const isText = (value: unknown): value is string => typeof value === "string";

it("a valid value is stored", () => {
  sessionStorage.setItem("test.value", "5");
  const store = storedValue(() => sessionStorage, "test.value", "first", isText);
  expect(store.get()).toBe("first");
  store.set("second");
  expect(storedValue(() => sessionStorage, "test.value", "first", isText).get()).toBe("second");
  sessionStorage.removeItem("test.value");
});

it("without storage a value is kept in memory", () => {
  const forbidden = (): Storage => {
    throw new DOMException("forbidden", "SecurityError");
  };
  const store = storedValue(forbidden, "test.value", "first", isText);
  expect(store.get()).toBe("first");
  store.set("second");
  expect(store.get()).toBe("second");
});

it("a value that another tab stores is taken over", () => {
  const store = storedValue(() => sessionStorage, "test.value", "first", isText);
  store.followOtherTabs();
  sessionStorage.setItem("test.value", JSON.stringify("second"));
  dispatchEvent(new StorageEvent("storage", { key: "test.other" }));
  expect(store.get()).toBe("first");
  dispatchEvent(new StorageEvent("storage", { key: "test.value" }));
  expect(store.get()).toBe("second");
  sessionStorage.clear();
  dispatchEvent(new StorageEvent("storage", { key: null }));
  expect(store.get()).toBe("first");
});
