import Addressing
import Bytes
import HTTPServer
package import HTTPServices
import ProxyCore
import ProxyRuntime
import PushDelivery
import PushPlanning
import Registration

/// An operator's order for a test push to the devices of a user, or to a token.
package struct PushTestRequest: Codable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "user": .text(3...512).described("`user@domain`: all devices of the user."),
        "provider": .words("Without a user: the provider of the token, as in pn-provider."),
        "token": .text(1...4096).described("Without a user: the token, as in pn-prid."),
        "param": .text(0...1024).described("The app of the token, as in pn-param."),
    ]

    package var user: String?
    package var provider: String?
    package var token: String?
    package var param: String?

    package init(user: String) { self.user = user }

    package init(provider: String, token: String, param: String?) {
        (self.provider, self.token, self.param) = (provider, token, param)
    }
}

/// The result of a test push to one or more devices.
package struct PushTestReport: Codable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = ["code": .words("`sippushd explain` takes it.")]

    /// The test push to one device, in the report.
    package struct Push: Codable, Sendable, DescribedBody {
        package static let schemaName: String? = "TestPush"
        package static let notes: [String: JSONSchema] = [
            "token": .words("The provider and the first characters of the token."),
            "omission": .words("Why no push was sent; missing if a push was sent."),
            "line": .words("Method and server of the request; missing if none was sent."),
            "fields": .words("The header fields of the request, without secrets."),
            "body": .words("The shape of the request's body: keys, numbers and lengths of texts."),
        ]

        package var device: String?
        package var token: String
        package var app: String
        package var omission: String?
        package var line: String?
        package var fields: [String]
        package var body: String?
        /// The timeline record of the push, with the provider's answer; `nil` if no push was sent.
        package var record: TimelineReport?
    }

    package var code: String
    package var pushes: [Push]
}

/// The HTTP route for test pushes, on the control socket and in the admin API.
struct PushTestRoute {
    let door: ShardDoor

    func register(in router: inout ServiceRouter) {
        router.add("POST", "/v1/push-tests", .pushTest) { call throws(ServiceProblem) in try await send(call) }
    }

    private func send(_ call: ServiceCall) async throws(ServiceProblem) {
        let request = try call.body(as: PushTestRequest.self, expected: "user, or provider and token")
        let target = try Self.target(request)
        switch target {
        case .user(let aor): call.changes("test push to \(aor)")
        case .token(let token): call.changes("test push to the token \(token)")
        }
        let domains = call.domains
        switch target {
        case .user(let aor):
            let hasDevice = await door.ask(.user(aor)) { engine, now in !engine.targets(of: aor, now: now).isEmpty }
            guard hasDevice, domains.permits(aor.host) else { throw ServiceProblem(404, "\(aor) has no device") }
        // Only a key for the whole daemon may push to a token, because a token has no domain.
        case .token: if domains != .wholeDaemon { throw .forWholeDaemon }
        }
        guard let (plan, records) = await door.sendTestPush(to: target) else {
            throw ServiceProblem(503, "too many notifications are being sent", retryAfter: 5)
        }
        call.answer(
            PushTestReport(
                code: plan.code.description,
                pushes: plan.pushes.map { push in
                    let record = records.first { $0.device == push.device }
                    return PushTestReport.Push(
                        device: push.device == .nobody ? nil : push.device.name, token: push.token, app: push.app,
                        omission: push.omission?.rawValue, line: push.request?.line, fields: push.request?.fields ?? [],
                        body: push.request?.body,
                        record: push.omission == nil ? record.map { TimelineReport($0) } : nil)
                }))
    }

    private static func target(_ request: PushTestRequest) throws(ServiceProblem) -> TestPushTarget {
        if let user = request.user {
            guard request.token == nil, let aor = ControlRoutes.aor(user) else {
                throw ServiceProblem(400, "expected user as user@domain, and no token")
            }
            return .user(aor)
        }
        guard let name = request.provider, let token = request.token, !token.isEmpty, token.utf8.count <= 4096 else {
            throw ServiceProblem(400, "expected user, or provider and token")
        }
        guard let provider = PushProvider(ByteString(name)) else {
            throw ServiceProblem(400, "no provider is called \(name)")
        }
        return .token(PushToken(provider: provider, param: ByteString(request.param ?? ""), prid: ByteString(token)))
    }
}

extension RouteDescription {
    static let pushTest = RouteDescription(
        "testPush", "Send a test push, and wait for the provider's answer",
        detail: "The phone shows a text. The push counts against the device's limit of notifications, and has a record."
    )
    .body(PushTestRequest.self).answer(200, "The request, and the provider's answer", PushTestReport.self)
    .problem(404, "The user has no device.").problem(503, "Too many notifications wait.")
}
