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

/// The HTTP routes by which apps report events of their pushes (received, followed, read), as on the 10darts platform.
///
/// Only the event loop of the shard uses the HTTP routes for apps' reports.
struct MarkRoutes {
    let door: ShardDoor
    let store: any ProxyStore
    let codes: DeviceCodes

    private static let pushes = "/api/v1/pushes"
    private static let marks: [(word: String, mark: PushMark)] = [
        ("received", .received), ("follow", .followed), ("read", .read),
    ]
    /// The HTTP methods of an app's report; the 10darts documents and the apps use different methods.
    private static let methods = ["PATCH", "PUT", "POST"]

    func register(in router: inout ServiceRouter) {
        for end in ["/", ""] {
            // In the path, `all_read` stands for all pushes; no push code equals `all_read`.
            let all = Self.pushes + "/all_read" + end
            for method in Self.methods {
                router.add(
                    method, all, scope: .lifecycleReport, domains: .byDomain, schemes: .bearerOrToken,
                    described: .allRead
                ) {
                    call throws(ServiceProblem) in
                    try await allRead(call)
                }
            }
            for (word, mark) in Self.marks {
                for method in Self.methods {
                    router.add(
                        method, Self.pushes + "/{}/" + word + end, scope: .lifecycleReport, domains: .byDomain,
                        schemes: .bearerOrToken, described: .mark(word)
                    ) { call throws(ServiceProblem) in
                        try await marked(call, mark)
                    }
                }
            }
        }
    }

    // MARK: Marks

    private func marked(_ call: ServiceCall, _ mark: PushMark) async throws(ServiceProblem) {
        let code = PushCode(call.parameter().lowercased())
        call.changes(code.map { "push \($0)" } ?? "an unknown push")
        let body = try MarkBody(call.request.body)
        guard let code, let device = codes.device(of: body.deviceCode) else { throw .noSuchPush }
        call.changes("push \(code)", "device \(device.name)")
        let domains = call.domains
        let (place, date) = await door.ask(.device(device)) { engine, now in
            guard engine.domain(of: device).map(domains.permits) == true else {
                return (ProxyEngine.MarkPlace.unknownDevice, now.date)
            }
            return (engine.pushMarked(code, mark, by: device, now: now), now.date)
        }
        switch place {
        case .unknownDevice: throw .noSuchPush
        case .record: call.answer(HTTPResponse(status: 200))
        case .row: submit(.pushMark(code, device: device, mark, at: date), of: call)
        }
    }

    private func allRead(_ call: ServiceCall) async throws(ServiceProblem) {
        call.changes("an unknown device")
        let body = try MarkBody(call.request.body)
        guard let device = codes.device(of: body.deviceCode) else { throw .noSuchPush }
        call.changes("device \(device.name)")
        let domains = call.domains
        let (isKnown, date) = await door.ask(.device(device)) { engine, now in
            guard engine.domain(of: device).map(domains.permits) == true else { return (false, now.date) }
            return (engine.allPushesRead(by: device, now: now), now.date)
        }
        guard isKnown else { throw .noSuchPush }
        submit(.allPushesRead(device: device, at: date), of: call)
    }

    /// Writes the change into the store, and then answers; the answer to a successful change has no body.
    private func submit(_ change: ServiceChange, of call: ServiceCall) {
        store.commit([change]) { result in
            if !result.isStored {
                call.answer(
                    ServiceProblem(503, "the store cannot be written now").response(fields: [
                        HTTPField("Retry-After", "5")
                    ]))
            } else if result.isFound {
                call.answer(HTTPResponse(status: 200))
            } else {
                call.answer(.noSuchPush)
            }
        }
    }
}

extension ServiceProblem {
    /// The answer to a report if the push does not exist or was sent to another device. An unknown push and another
    /// device's push get the same answer, so that the answer does not reveal which pushes exist.
    static var noSuchPush: ServiceProblem { ServiceProblem(404, "no such push or device") }
}
