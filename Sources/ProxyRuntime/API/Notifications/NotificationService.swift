import HTTPServer
import ProxyCore
import PushDelivery
import Reactor
import Registration
import SIPGrammar
import Timekeeping

/// Lets application servers send messages and silent pushes to devices, through the same service that pushes calls.
///
/// Lives on the shard's loop.
struct NotificationService {
    let shard: ProxyShard
    let push: PushService
    let search: TokenSearch

    init(shard: ProxyShard, push: PushService, form: ReportedTokens.Form) {
        self.shard = shard
        self.push = push
        search = TokenSearch(shard: shard, form: form)
    }

    func register(in router: inout ServiceRouter) {
        for path in ["/api/v1/notifications", "/api/v1/notifications/"] {
            router.add("POST", path, scope: .pushes) { call throws(ServiceProblem) in try ordered(call) }
        }
        MediatorRoutes(service: self).register(in: &router)
    }

    // MARK: The form of 10darts

    private struct Acceptance: Encodable {
        let code: String
        /// Devices.
        let sentTo, skipped: Int
        /// Users, as they were named.
        let unknown: [String]

        enum CodingKeys: String, CodingKey {
            case code
            case sentTo = "sent_to"
            case skipped, unknown
        }
    }

    private func ordered(_ call: ServiceCall) throws(ServiceProblem) {
        let code = PushCode(high: .random(in: .min ... .max), low: .random(in: .min ... .max))
        let body = try NotificationBody(
            try RequestObject(bodyOf: call.request), code: code, now: shard.loop.moment.date)
        let named = users(body.users)
        let receipt: NotificationReceipt
        do throws(NotificationRefusal) {
            receipt = try order(body.notification, for: named.known.map { .user($0.aor) })
        } catch {
            switch error {
            case .payload(let reason): throw ServiceProblem(422, "it does not fit into a push", detail: reason)
            case .noRoom:
                return call.answer(
                    ServiceProblem(503, "too many notifications are under way").response(fields: [
                        HTTPField("Retry-After", "5")
                    ]))
            }
        }
        let absent = named.known.filter { receipt.absent.contains(.user($0.aor)) }.map(\.name)
        call.answer(
            Acceptance(
                code: code.description, sentTo: receipt.sent, skipped: receipt.skipped.count,
                unknown: named.unknown + absent), status: 202)
    }

    private struct Users {
        var known: [(aor: AddressOfRecord, name: String)] = []
        /// Of domains that are not ours.
        var unknown: [String] = []
    }

    /// Each user once.
    private func users(_ names: [String]) -> Users {
        let aors = shard.assumeIsolated { shard in
            shard.withEngine { engine, _ in
                names.map { name in
                    let named = NamedUser(name)
                    return engine.aor(of: named.user, in: named.domain)
                }
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

    // MARK: All forms

    func order(
        _ notification: PushNotification, for recipients: [NotificationRecipient]
    ) throws(NotificationRefusal) -> NotificationReceipt {
        let push = push
        let result: Result<NotificationReceipt, NotificationRefusal> = shard.assumeIsolated { shard in
            shard.withEngine { engine, now in
                do throws(NotificationRefusal) {
                    return .success(
                        try engine.notificationOrdered(
                            notification, for: recipients, room: push.notificationRoom,
                            verdict: { push.verdict(on: $0) }, now: now))
                } catch {
                    return .failure(error)
                }
            }
        }
        return try result.get()
    }
}
