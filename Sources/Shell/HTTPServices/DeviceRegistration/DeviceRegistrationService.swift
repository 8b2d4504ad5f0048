import Addressing
import Persistence
import ProxyCore
import ProxyRuntime
import PushDelivery
import Reactor
import Registration
import Resolver
import Telemetry

/// The device registration API: its HTTP routes, the queue of accepted requests, and the sender of webhooks.
final class DeviceRegistrationService {
    private let routes: DeviceRegistrationRoutes
    let queue: DeviceRequestQueue
    private let store: any ProxyStore
    private let webhooks: WebhookSender

    /// Creates the HTTP routes and the queue.
    ///
    /// - Parameters:
    ///   - settings: the settings of the API.
    ///   - apps: the apps whose servers may send requests.
    ///   - loop: the shard's loop.
    ///   - directory: the engine's functions for users' devices.
    ///   - store: the store of requests and outcomes.
    ///   - wrongLogins: counts wrong API tokens.
    ///   - log: receives messages about failures.
    ///   - ownEndpoints: the daemon's own listeners, to which webhooks are never sent.
    ///   - resolve: resolves the host names of webhook receivers.
    /// - Throws: an error if a timer cannot be created.
    init(
        settings: APISettings, apps: MobileApps, loop: EventLoop, directory: DeviceDirectory, store: any ProxyStore,
        wrongLogins: WrongLogins, log: Log,
        ownEndpoints: @escaping () -> [Endpoint],
        resolve: @escaping WebhookSender.Resolve
    ) throws(StartError) {
        self.store = store
        webhooks = WebhookSender(
            settings: settings.deviceRegistration, loop: loop, log: log, ownEndpoints: ownEndpoints, resolve: resolve)
        do throws(SystemError) {
            queue = try DeviceRequestQueue(
                store: store, loop: loop, apps: apps, directory: directory, webhooks: webhooks,
                age: settings.deviceRegistration.historyAge, log: log)
        } catch {
            throw StartError("device registration: \(error)")
        }
        routes = DeviceRegistrationRoutes(
            queue: queue, store: store, apps: apps, signature: settings.deviceRegistration.signature,
            wrongLogins: wrongLogins)
    }

    /// Resumes the requests that were accepted before the last stop and are not finished.
    func resume() async throws(StartError) {
        queue.resume(try await StartError.wrapping(store.openDeviceRequests))
    }

    func register(in router: inout ServiceRouter) { routes.register(in: &router) }

    func prune() { queue.prune() }

    func close() { webhooks.close() }

    /// Reads the certificate authorities of webhook receivers again.
    func reloadCertificates() { webhooks.readAuthority() }
}

extension DeviceDirectory {
    /// Creates functions that ask the engine through the ``ShardDoor``.
    init(_ door: ShardDoor) {
        self.init(
            report: { device, aor in
                await door.report(of: aor) { engine, ticket, now in
                    engine.deviceReported(device, of: aor, ticket, now: now)
                }
            },
            withdraw: { selection, aor in
                await door.report(of: aor) { engine, ticket, now in
                    engine.devicesWithdrawn(selection, of: aor, ticket, now: now)
                }
            },
            canBePushed: { await door.canBePushed($0) },
            tokens: { aor in
                await door.ask(.user(aor)) { engine, now in
                    engine.targets(of: aor, now: now).compactMap(\.pushToken)
                }
            })
    }
}
