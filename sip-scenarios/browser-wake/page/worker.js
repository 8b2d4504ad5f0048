// The page's service worker: it gets the pushes, also while the page has no connection, and tells the page.
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("push", (event) => event.waitUntil(tellPages(event.data?.json())));

async function tellPages(push) {
    const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    for (const page of pages) page.postMessage(push);
}
