import Addressing
import Bytes
import Crypto
import FoundationEssentials
import HTTPServer
import JSON
import Persistence
import Reactor
import SIPGrammar
import Telemetry

/// The device registration API of Dynamics 365 Customer Insights: accepts requests, and reports their outcomes.
///
/// A request with a wrong API token gets the usual answer, but the daemon does not store it, and sends no webhook.
/// Therefore a client without a token cannot find out which apps exist, fill the disk, or make the daemon send
/// requests.
final class DeviceRegistrationRoutes: Sendable {
    private let queue: DeviceRequestQueue
    private let store: any ProxyStore
    private let apps: MobileApps
    private let signature: SignatureEncoding
    private let wrongLogins: WrongLogins

    private static let base = "/api/v1.0/orgs/{}/pushdeviceregistration/devices"

    init(
        queue: DeviceRequestQueue, store: any ProxyStore, apps: MobileApps, signature: SignatureEncoding,
        wrongLogins: WrongLogins
    ) {
        self.queue = queue
        self.store = store
        self.apps = apps
        self.signature = signature
        self.wrongLogins = wrongLogins
    }

    func register(in router: inout ServiceRouter) {
        add("", to: &router, .registration) { call throws(ServiceProblem) in
            let body = try JSONValue(bodyOf: call.request)
            try await self.accept([try RegistrationBody(body)], of: call, isBatch: false)
        }
        add("/batch", to: &router, .registrations) { call throws(ServiceProblem) in
            var bodies: [RegistrationBody] = []
            for item in try JSONValue(bodyOf: call.request).items() { bodies.append(try RegistrationBody(item)) }
            try await self.accept(bodies, of: call, isBatch: true)
        }
        for path in ["/status", "/status/"] {
            add(path, to: &router, .outcomes, isChange: false) { call throws(ServiceProblem) in
                try await self.tell(try StatusBody(try JSONValue(bodyOf: call.request)), to: call)
            }
        }
        add("/cleanup", to: &router, .cleanup) { call throws(ServiceProblem) in
            try await self.accept([try CleanupBody(try JSONValue(bodyOf: call.request))], of: call)
        }
        add("/cleanup/batch", to: &router, .cleanups) { call throws(ServiceProblem) in
            let body = try JSONValue(bodyOf: call.request)
            // In some versions of Microsoft's documentation, the body is one object instead of an array.
            if case .object = body { return try await self.accept([try CleanupBody(body)], of: call) }
            var bodies: [CleanupBody] = []
            for item in try body.items() { bodies.append(try CleanupBody(item)) }
            try await self.accept(bodies, of: call)
        }
    }

    /// Adds an HTTP route without a scope, because the API token in the body replaces a key.
    private func add(
        _ path: String, to router: inout ServiceRouter, _ description: RouteDescription, isChange: Bool = true,
        _ handler: @escaping ServiceRouter.Handler
    ) {
        router.add(
            "POST", Self.base + path, scope: nil, domains: .open, isChange: isChange, showsToken: true,
            described: description, handler)
    }

    // MARK: API tokens

    /// Checks each pair of app and API token once, so that a batch of a hundred equal entries is treated as one guess.
    /// If the source has sent too many wrong tokens, the function throws, and nothing in the request is carried out.
    ///
    /// The audit line names the users, and the apps whose token was right.
    private func judge(
        _ shown: [AppCredentials], changing users: [String] = [], of call: ServiceCall
    ) async throws(ServiceProblem) -> Set<AppCredentials> {
        call.changes(users)
        var judged: Set<AppCredentials> = []
        let guesses = shown.filter { judged.insert($0).inserted }
        let known = guesses.map { apps.app($0.app, of: call.parameter(), showing: $0.apiToken) }
        let areRight = known.map { $0 != nil }
        let (heard, wait) = await wrongLogins.judge(areRight, from: call.request.remote.address)
        for isRight in areRight.prefix(heard) where !isRight { queue.strangerCame(call.request) }
        if let wait { throw .tooManyLogins(wait) }
        let names = known.compactMap { $0.map { "app:\($0.id)" } }
        call.changes(users, by: names.isEmpty ? nil : AuditedChange.list(names))
        return Set(zip(guesses, areRight).filter { $0.1 }.map { $0.0 })
    }

    // MARK: Registrations

    struct Acceptance: Codable, DescribedBody {
        static let schemaName: String? = "Acceptance"
        static let notes: [String: JSONSchema] = ["RegistrationRequestId": .guid]

        let id: String

        enum CodingKeys: String, CodingKey { case id = "RegistrationRequestId" }
    }

    private func accept(
        _ bodies: [RegistrationBody], of call: ServiceCall, isBatch: Bool
    ) async throws(ServiceProblem) {
        let fields = try RegistrationFields(call.request)
        let good = try await judge(bodies.map(\.credentials), changing: bodies.map(\.user), of: call)
        var ids: [RequestID] = []
        var requests: [DeviceRequest] = []
        for body in bodies {
            let id = RequestID.make()
            ids.append(id)
            // If a client shows a wrong token, its callback URL is ignored, because the URL may belong to somebody
            // else.
            guard good.contains(body.credentials) else { continue }
            let callback = try callback(fields, signedWith: body.credentials.apiToken)
            requests.append(
                DeviceRequest(
                    id: id, kind: .registration, app: body.credentials.app.text, user: body.user,
                    platform: body.platform, token: body.token, isTracked: fields.isTracked, callback: callback,
                    acceptedAt: queue.date))
        }
        try queue.accept(requests) { [ids] isStored in
            guard isStored else { return call.answer(.notWritten) }
            if !fields.isTracked {
                call.answer(HTTPResponse(status: 202))
            } else if isBatch {
                call.answer(ids.map { Acceptance(id: $0.text) }, status: 202)
            } else if let id = ids.first {
                call.answer(Acceptance(id: id.text), status: 202)
            }
        }
    }

    private func callback(
        _ fields: RegistrationFields, signedWith apiToken: String
    ) throws(ServiceProblem) -> DeviceCallback? {
        guard let url = fields.callbackURL else { return nil }
        do throws(CryptoError) {
            return DeviceCallback(
                url: url, signature: try signature.signature(of: url, key: apiToken), fields: fields.callbackFields)
        } catch {
            throw ServiceProblem(503, "the webhook cannot be signed now")
        }
    }

    // MARK: Cleanups

    private func accept(_ bodies: [CleanupBody], of call: ServiceCall) async throws(ServiceProblem) {
        let good = try await judge(bodies.map(\.credentials), changing: bodies.map(\.user), of: call)
        let requests = bodies.filter { good.contains($0.credentials) }.map { body in
            DeviceRequest(
                id: .make(), kind: .cleanup, app: body.credentials.app.text, user: body.user, platform: .apple,
                token: body.token ?? "", isTracked: false, callback: nil, acceptedAt: queue.date)
        }
        try queue.accept(requests) { isStored in
            if isStored { call.answer(HTTPResponse(status: 202)) } else { call.answer(.notWritten) }
        }
    }

    // MARK: Outcomes

    private func tell(_ body: StatusBody, to call: ServiceCall) async throws(ServiceProblem) {
        // A client with a wrong token gets the same answer as a client that asks about an unknown request.
        guard try await !judge([body.credentials], of: call).isEmpty else {
            return call.answer(body.requests.map { _ in DeviceOutcome.pending })
        }
        call.askStore { [store] in
            call.answer(try await store.deviceOutcomes(of: body.requests, app: body.credentials.app.text))
        }
    }
}

extension DeviceOutcome: Encodable {
    private enum CodingKeys: String, CodingKey {
        case status = "Status"
        case failure = "FailureReason"
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        switch self {
        case .pending: try container.encode("Pending", forKey: .status)
        case .success: try container.encode("Success", forKey: .status)
        case .failed(let failure):
            try container.encode("Failed", forKey: .status)
            try container.encode(failure.rawValue, forKey: .failure)
        }
    }
}

extension SignatureEncoding {
    /// Returns the HMAC-SHA256 of the URL, for a header field of the webhook.
    func signature(of url: String, key: String) throws(CryptoError) -> String {
        var key = try HMACKey(Array(key.utf8).span)
        let code = key.code(for: Array(url.utf8))
        return switch self {
        case .base64: String(decoding: Base64.standard.encode(code), as: UTF8.self)
        case .hex: String(decoding: Hex.encode(code), as: UTF8.self)
        }
    }
}

extension ServiceProblem {
    static var notWritten: ServiceProblem { ServiceProblem(503, "the store cannot be written now", retryAfter: 5) }
    static var tooManyRequests: ServiceProblem {
        ServiceProblem(503, "the queue of registrations is full", retryAfter: 5)
    }
}
