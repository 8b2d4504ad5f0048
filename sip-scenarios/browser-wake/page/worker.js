// The page's service worker, which receives pushes even while the page has no connection, and reports the pushes to the page.
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("push", (event) => event.waitUntil(tellPages(event.data?.json())));

async function tellPages(push) {
    const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    for (const page of pages) page.postMessage(push);
}
