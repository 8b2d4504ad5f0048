import Addressing
import Bytes
import HTTPSemantics
import HTTPServer
import Persistence
import ProxyCore
import ProxyRuntime
import PushDelivery
import Reactor
import Registration
import Timekeeping

/// Sends application servers' messages and silent pushes, through the dispatcher that also sends the pushes for calls.
///
/// Only the event loop of the shard uses the notification service.
struct NotificationService {
    let door: ShardDoor
    let loop: EventLoop
    let reported: ReportedDevices
    private let store: any ProxyStore
    private let codes: DeviceCodes
    private let recent = RecentOrders()

    init(
        door: ShardDoor, loop: EventLoop, store: any ProxyStore, codes: DeviceCodes,
        search: DeviceSearch, form: ReportedTokens.Form
    ) {
        self.door = door
        self.loop = loop
        self.store = store
        self.codes = codes
        reported = ReportedDevices(door: door, search: search, form: form)
    }

    func register(in router: inout ServiceRouter) {
        for end in ["/", ""] {
            router.add(
                "POST", "/api/v1/notifications" + end, scope: .pushes, domains: .byDomain,
                schemes: .bearerOrToken, described: .notification
            ) { call throws(ServiceProblem) in
                try await ordered(call)
            }
            router.add(
                "GET", "/api/v1/notifications/{}/metrics" + end, scope: .pushes, domains: .byDomain,
                schemes: .bearerOrToken, described: .notificationMetrics
            ) { call throws(ServiceProblem) in
                try await tellMetrics(call)
            }
        }
        MediatorRoutes(service: self).register(in: &router)
    }

    // MARK: The form of 10darts

    struct Acceptance: Codable, DescribedBody {
        static let notes: [String: JSONSchema] = ["code": .guid]

        let code: String
        /// The number of devices that get the notification, and the number of skipped devices.
        let sentTo, skipped: Int
        /// The unknown users and devices, as the request names them.
        let unknown: [String]

        enum CodingKeys: String, CodingKey {
            case code
            case sentTo = "sent_to"
            case skipped, unknown
        }
    }

    private func ordered(_ call: ServiceCall) async throws(ServiceProblem) {
        let body = try NotificationBody(try RequestObject(bodyOf: call.request), now: loop.moment.date)
        let domains = call.domains
        let devices = await permitted(body.devices.map { (name: $0, device: codes.device(of: $0)) }, in: domains)
        // The log does not contain a device's code, because apps use the code as a credential.
        let meant = body.users + devices.map { $0.device.map { "device \($0.name)" } ?? "an unknown device" }
        call.changes(meant)
        let named = await users(body.users, in: domains)
        let recipients =
            named.known.map { NotificationRecipient.user($0.aor) }
            + devices.compactMap { $0.device.map(NotificationRecipient.device) }
        let receipt: NotificationReceipt
        do throws(NotificationRefusal) {
            receipt = try await order(body.notification, for: recipients)
        } catch {
            switch error {
            case .payload(let reason): throw ServiceProblem(422, "it does not fit into a push", detail: reason)
            case .noRoom:
                return call.answer(
                    ServiceProblem(503, "too many notifications are being sent").response(fields: [
                        HTTPField("Retry-After", "5")
                    ]))
            }
        }
        call.changes(["push \(receipt.code)"] + meant)
        recent.add(receipt.code, sent: receipt.sent, skipped: receipt.skipped.count, by: domains, at: loop.moment.date)
        let absent = Set(receipt.absent)
        let unknown =
            named.unknown + named.known.filter { absent.contains(.user($0.aor)) }.map(\.name)
            + devices.filter { device in device.device.map { absent.contains(.device($0)) } ?? true }
            .map { String($0.name) }
        call.answer(
            Acceptance(
                code: receipt.code.description, sentTo: receipt.sent, skipped: receipt.skipped.count,
                unknown: unknown), status: 202)
    }

    private struct Users {
        var known: [(aor: AddressOfRecord, name: String)] = []
        /// The names of users whose domain does not belong to the daemon or does not belong to the sender.
        var unknown: [String] = []
    }

    /// Removes devices of users outside the given domains, so that these devices are treated as unknown.
    private func permitted(
        _ devices: [(name: Substring, device: DeviceID?)], in domains: DomainScope
    ) async -> [(name: Substring, device: DeviceID?)] {
        guard domains != .wholeDaemon, !devices.isEmpty else { return devices }
        let ids = devices.map(\.device)
        let known = await door.ask(.everything) { engine, _ in
            ids.map { $0.flatMap { engine.domain(of: $0) }.map(domains.permits) ?? false }
        }
        return zip(devices, known).map { ($0.name, $1 ? $0.device : nil) }
    }

    /// Returns the users with the given names, each user once.
    private func users(_ names: [String], in domains: DomainScope) async -> Users {
        let aors = await door.ask(.everything) { engine, _ in
            names.map { name in
                let named = NamedUser(name)
                return engine.aor(of: named.user, in: named.domain ?? domains.single)
                    .flatMap { domains.permits($0.host) ? $0 : nil }
            }
        }
        var users = Users()
        var seen = Set<AddressOfRecord>()
        for (name, aor) in zip(names, aors) {
            if let aor {
                if seen.insert(aor).inserted { users.known.append((aor, name)) }
            } else {
                users.unknown.append(name)
            }
        }
        return users
    }

    // MARK: Outcome

    struct Metrics: Codable {
        /// The outcome of the notification: the number of devices for each result.
        let sentTo, skipped, accepted, failed, receivedBy, followedBy: Int
        let devices: [PushReport.Device]

        enum CodingKeys: String, CodingKey {
            case sentTo = "sent_to"
            case skipped, accepted, failed
            case receivedBy = "received_by"
            case followedBy = "followed_by"
            case devices
        }

        init(_ records: [TimelineRecord], _ order: RecentOrders.Order?, _ codes: DeviceCodes) {
            let omitted = records.count { $0.omission != nil }
            sentTo = max(records.count - omitted, order?.sent ?? 0)
            skipped = max(omitted, order?.skipped ?? 0)
            devices = records.filter { $0.omission == nil }.map { PushReport.Device($0, codes.code(of: $0.device)) }
            accepted = devices.count(where: \.accepted)
            failed = devices.count(where: \.failed)
            receivedBy = devices.count(where: \.received)
            followedBy = devices.count(where: \.followed)
        }
    }

    /// The maximum number of records that are read for one push order, because no push order has more devices.
    private static let deviceLimit = 2000

    private func tellMetrics(_ call: ServiceCall) async throws(ServiceProblem) {
        guard let code = PushCode(call.parameter().lowercased()) else { throw .noSuchNotification }
        let (loop, codes, recent, domains) = (loop, codes, recent, call.domains)
        let live = await door.ask(.everything) { engine, _ in
            engine.timeline.underWay { $0.code == code && domains.permits($0.host) }
        }
        call.askStore { [store] in
            let records =
                try await store.timeline(of: [.push(code)], limit: Self.deviceLimit, in: domains.hosts) + live
            // The loop computes the device codes, because only the loop may use ``DeviceCodes``.
            loop.post {
                // A record that was written between the two queries is in both results, but must be counted only once.
                var seen = Set<DeviceID>()
                let found = records.filter { $0.kind == .notification && seen.insert($0.device).inserted }
                let order = recent[code].flatMap { domains.includes($0.domains) ? $0 : nil }
                guard order != nil || !found.isEmpty else { return call.answer(.noSuchNotification) }
                call.answer(Metrics(found, order, codes))
            }
        }
    }

    // MARK: All forms

    /// Makes the engine send a notification to all devices that belong to the recipients and can receive the
    /// notification.
    ///
    /// - Throws: a problem before any push is sent, if the notification is too long for one device, or too many
    ///   notifications are in progress.
    func order(
        _ notification: PushNotification, for recipients: [NotificationRecipient]
    ) async throws(NotificationRefusal) -> NotificationReceipt {
        let result: Result<NotificationReceipt, NotificationRefusal> = await door.ask(.everything) { engine, now in
            do throws(NotificationRefusal) {
                return .success(try engine.notificationOrdered(notification, for: recipients, now: now))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }
}

extension ServiceProblem {
    fileprivate static var noSuchNotification: ServiceProblem { ServiceProblem(404, "no such notification") }
}
