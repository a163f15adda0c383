"""Scripts that measure within the page."""

from typing import Final

# `interactive`: when what was awaited has been drawn, and the page has had no long task since for a moment.
LOAD_PROBE: Final = """
{
  const awaited = %s;
  const quietMs = 500;
  let busyUntil = 0;
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) busyUntil = Math.max(busyUntil, task.startTime + task.duration);
  }).observe({ type: "longtask", buffered: true });
  window.interactive = new Promise((resolve) => {
    const look = new MutationObserver(() => {
      if (!document.querySelector(awaited)) return;
      look.disconnect();
      requestAnimationFrame(() => setTimeout(() => {
        const drawn = performance.now();
        const settle = () => {
          const at = Math.max(drawn, busyUntil);
          if (performance.now() - at < quietMs) setTimeout(settle, 100);
          else resolve(at);
        };
        settle();
      }));
    });
    look.observe(document, { subtree: true, childList: true, attributes: true });
  });
}
"""

# `look(run)` notes when each change of that run's status has been drawn, in unix milliseconds.
STATUS_PROBE: Final = """
window.statuses = [];
window.look = (run) => {
  const now = () => document.querySelector(`[data-run='${run}'] [data-status]`)?.dataset.status;
  let last = now();
  new MutationObserver(() => {
    const status = now();
    if (!status || status === last) return;
    last = status;
    requestAnimationFrame(() => setTimeout(() => {
      window.statuses.push(performance.timeOrigin + performance.now());
    }));
  }).observe(document.body, { subtree: true, childList: true, attributes: true });
};
"""
STATUSES_SEEN: Final = "window.statuses"

# How long each frame took while the list was scrolled.
SCROLL: Final = """
async (list, [pixels, count]) => {
  const frames = [];
  let last = await new Promise(requestAnimationFrame);
  for (let index = 0; index < count; index += 1) {
    list.scrollTop += pixels;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return frames;
}
"""

# From `begin()` on: frames, long tasks, keys until what they did was drawn, how often the run was drawn anew.
FLOW_PROBE: Final = """
{
  const found = { frames: [], tasks: [], keys: [], updates: 0 };
  const observe = (type, into, more) => new PerformanceObserver((list) => {
    for (const entry of list.getEntries())
      if (type !== "event" || entry.name === "keydown") into.push(entry.duration);
  }).observe({ type, ...more });
  window.begin = () => {
    observe("longtask", found.tasks);
    observe("event", found.keys, { durationThreshold: 16 });
    let last = performance.now();
    const frame = (now) => {
      found.frames.push(now - last);
      last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    let changed = false;
    const look = new MutationObserver(() => { changed = true; });
    look.observe(document.querySelector("main"), { subtree: true, attributeFilter: ["data-state"] });
    setInterval(() => { if (changed) found.updates += 1; changed = false; }, 1);
  };
  window.found = () => found;
}
"""
