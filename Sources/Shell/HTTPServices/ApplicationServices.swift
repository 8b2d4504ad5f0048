package import Addressing
package import Bytes
package import Persistence
package import ProxyRuntime
package import Reactor
import Resolver
package import Telemetry
import Timekeeping

/// All services of the HTTP API, for application servers and apps.
///
/// - The class is `@unchecked Sendable`, because it is created before its loop runs, and later only this loop uses it.
package final class ApplicationServices: @unchecked Sendable {
    package let apps: MobileApps
    private let settings: APISettings
    /// Whether the daemon keeps a timeline. Without a timeline, the store has no data about ended pushes, so the routes
    /// for reports about pushes are not served.
    private let keepsTimeline: Bool
    private let store: any ProxyStore
    private let loop: EventLoop
    private let log: Log
    private let codes: DeviceCodes
    private var deadTokens: DeadTokenService?
    private var deviceRegistration: DeviceRegistrationService?

    /// Reads the mobile apps and the key of the device codes from the store. The parameter `domains` has the daemon's
    /// domains, which the apps' users belong to.
    package init(
        settings: APISettings, domains: [String], keepsTimeline: Bool, store: any ProxyStore, loop: EventLoop, log: Log
    ) async throws(StartError) {
        (self.settings, self.keepsTimeline) = (settings, keepsTimeline)
        (self.store, self.loop, self.log) = (store, loop, log)
        apps = MobileApps(settings.mobileApps, domains: domains)
        codes = try await DeviceCodes.load(store, now: loop.moment.date)
        use(try await StartError.wrapping(store.mobileApps))
    }

    /// Replaces the apps of the store, because an operator may have changed them.
    package func use(_ stored: [StoredMobileApp]) {
        for conflict in apps.replace(by: stored) {
            log.warning(
                "the daemon ignores an app from the store, because an app in the settings has the same name or id",
                [.topic: .text(conflict.app.name), .reason: .text(conflict.reason)])
        }
    }

    /// Reads the certificate authorities of webhook receivers again.
    package func reloadCertificates() { deviceRegistration?.reloadCertificates() }

    /// The code of a device, by which the app names its device in requests to the daemon. Each push to a device
    /// contains the device's code.
    package func deviceCode(of device: DeviceID) -> ByteString { ByteString(codes.code(of: device)) }

    /// Adds the HTTP routes of all services. The closure `events` returns the reason why events do not reach the
    /// operator's receiver. The closure `ownEndpoints` returns the daemon's own listeners, to which
    /// webhooks are never sent.
    package func register(
        in api: APIService, door: ShardDoor, events: @escaping @Sendable () -> String?,
        ownEndpoints: @escaping () -> [Endpoint]
    ) async throws(StartError) {
        let search = DeviceSearch(door, on: loop)
        SystemRoutes(loop: loop, store: store, door: door, events: events).register(in: &api.router)
        PushTokenService(door: door, form: settings.pushTokens.provider).register(in: &api.router)
        if settings.notifications.enabled {
            NotificationService(
                door: door, loop: loop, store: store, codes: codes, search: search,
                form: settings.pushTokens.provider
            ).register(in: &api.router)
        }
        do throws(SystemError) {
            let service = try DeadTokenService(store: store, loop: loop, age: settings.deadTokenAge)
            service.register(in: &api.router)
            deadTokens = service
        } catch {
            throw StartError("dead tokens: \(error)")
        }
        try await registerDeviceRegistration(in: api, door, ownEndpoints)
        guard keepsTimeline else { return }
        MarkRoutes(door: door, store: store, codes: codes).register(in: &api.router)
        StatisticsRoutes(door: door, loop: loop, store: store, codes: codes).register(in: &api.router)
        WakeReportRoute(store: store, loop: loop).register(in: &api.router, scope: .lifecycle)
        DeviceCodeRoutes(door: door, codes: codes, search: search).register(in: &api.router)
    }

    /// Adds the push statistics to the HTTP routes of operators.
    package func registerForOperators(in router: inout ServiceRouter, door: ShardDoor) {
        guard keepsTimeline else { return }
        StatisticsRoutes(door: door, loop: loop, store: store, codes: codes)
            .registerForOperators(in: &router)
    }

    /// Serves device registration even without apps, because operators can add apps at any time. Without apps, each
    /// request is answered like a request with a wrong token.
    private func registerDeviceRegistration(
        in api: APIService, _ door: ShardDoor, _ ownEndpoints: @escaping () -> [Endpoint]
    ) async throws(StartError) {
        guard !settings.listen.isEmpty || !apps.isEmpty else { return }
        let resolver: DNSResolver
        do throws(SystemError) {
            resolver = try DNSResolver(on: loop)
        } catch {
            throw StartError("cannot create a resolver: \(error)")
        }
        let service = try DeviceRegistrationService(
            settings: settings, apps: apps, loop: loop, directory: DeviceDirectory(door), store: store,
            wrongLogins: api.wrongLogins, log: log, ownEndpoints: ownEndpoints,
            resolve: { resolver.addresses(of: $0, $1) })
        service.register(in: &api.router)
        try await service.resume()
        deviceRegistration = service
    }
}
