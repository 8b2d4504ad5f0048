import ProxyPolicy
import Addressing
import Bytes
import Crypto
import Foundation
import HTTPClient
import HTTPSemantics
import JSON
import LoopTesting
import Persistence
import ProxyCore
import PushDelivery
import Reactor
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping
@testable import HTTPServices

@testable import Registration

/// The device registration API with a store, for which the test plays the user's devices and the push service.
actor DeviceAPI {
    static let app = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    static let otherApp = "11111111-2222-3333-4444-555555555555"
    static let apiToken = "api-token-1"

    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    nonisolated let folder: StoreFolder
    nonisolated let logSink = MemoryLogSink()
    /// The tokens of all dry runs, in the order of the requests.
    nonisolated let pushes = Mailbox<PushToken>()

    private let settings: APISettings
    private var resolve: WebhookSender.Resolve = { _, done in done([]) }
    private var parts: Parts?
    private var devices: [AddressOfRecord: [PushToken]] = [:]
    private var session: HTTPSession?
    private(set) var endpoint = Endpoint(.loopbackV4, 0)
    /// Whether dry runs wait until the test calls ``release()``.
    private var isHolding = false
    private var held: [(token: PushToken, asker: CheckedContinuation<Bool, Never>)] = []

    private struct Parts {
        let api: APIService
        let service: DeviceRegistrationService
        let store: DatabaseStore
    }

    init(
        _ loop: EventLoop, folder: StoreFolder, _ change: @Sendable (inout APISettings) -> Void = { _ in }
    ) {
        self.loop = loop
        self.folder = folder
        var settings = APISettings()
        settings.listen = [Endpoint(.loopbackV4, 0)]
        for (name, id) in [("shop", Self.app), ("other", Self.otherApp)] {
            var app = MobileAppSettings()
            app.id = id
            app.organisation = "Org-1"
            app.tokenHashes = [HashAlgorithm.sha256.digest(of: Array(Self.apiToken.utf8))]
            app.appleParam = name == "shop" ? "TEAM.com.example.phone" : "TEAM.com.example.phone.voip"
            app.googleParam = "my-project"
            settings.mobileApps[name] = app
        }
        settings.deviceRegistration.allowsPlainWebhooks = true
        settings.deviceRegistration.privateReceivers = [AddressBlock("127.0.0.0/8")].compactMap(\.self)
        change(&settings)
        self.settings = settings
    }

    func resolving(_ resolve: @escaping WebhookSender.Resolve) { self.resolve = resolve }

    func start() async throws {
        let log = Log(level: .debug, sink: logSink) { UnixTime(milliseconds: 0) }
        let store = try folder.open(loop: loop, log: log)
        let api = APIService(settings.access(LimitSettings()), loop: loop, keys: APIKeyRing(), log: log)
        let directory = DeviceDirectory(
            report: { device, aor in self.report(device, aor) },
            withdraw: { selection, aor in self.withdraw(selection, aor) },
            canBePushed: { await self.canBePushed($0) }, tokens: { aor in self.devices[aor] ?? [] })
        let resolve = resolve
        let service = try DeviceRegistrationService(
            settings: settings, apps: MobileApps(settings.mobileApps, domains: ["Example.org", "example.net"]),
            loop: loop, directory: directory, store: store,
            wrongLogins: api.wrongLogins, log: log, ownEndpoints: { api.endpoints },
            resolve: resolve)
        service.register(in: &api.router)
        try await service.resume()
        parts = Parts(api: api, service: service, store: store)
        try api.listen()
        endpoint = try #require(api.endpoints.first)
        session = HTTPSession(on: loop)
    }

    func stop() {
        session?.close()
        parts?.api.close()
        parts?.service.close()
        parts?.store.close()
        parts = nil
    }

    // MARK: The engine and the providers

    private func report(_ device: ReportedDevice, _ aor: AddressOfRecord) -> ReportResult {
        switch aor.user.string {
        case "full": return .tooManyDevices
        case "off": return .notSupported(.providerOff)
        default:
            guard let token = device.token(over: nil) else { return .malformed }
            if devices[aor]?.contains(token) != true { devices[aor, default: []].append(token) }
            return .done(1)
        }
    }

    private func withdraw(_ selection: DeviceSelection, _ aor: AddressOfRecord) -> ReportResult {
        guard case .token(let prid) = selection else { return .malformed }
        devices[aor]?.removeAll { $0.prid == prid }
        return .done(1)
    }

    private func canBePushed(_ token: PushToken) async -> Bool {
        pushes.put(token)
        guard isHolding else { return isGood(token) }
        return await withCheckedContinuation { held.append((token, $0)) }
    }

    private func isGood(_ token: PushToken) -> Bool {
        !token.prid.hasPrefix("dead") && (token.provider != .apns || (try? APNsToken(token)) != nil)
    }

    func hold() { isHolding = true }

    func release() {
        isHolding = false
        for (token, asker) in held { asker.resume(returning: isGood(token)) }
        held = []
    }

    func forget(_ user: String) {
        devices[AddressOfRecord(user: ByteString(user), host: ByteString("example.org"))] = nil
    }

    func register(_ token: String, for user: String) {
        let token = PushToken(provider: .fcm, param: ByteString("sip"), prid: ByteString(token))
        devices[AddressOfRecord(user: ByteString(user), host: ByteString("example.org")), default: []].append(token)
    }

    /// Lists the user's devices, each as `provider:param:prid`.
    func devices(of user: String, at host: String = "example.org") -> [String] {
        devices[AddressOfRecord(user: ByteString(user), host: ByteString(host))]?.map {
            "\($0.provider.rawValue):\($0.param):\($0.prid)"
        } ?? []
    }

    func prune() { parts?.service.prune() }

    var openRequests: Int { parts?.service.queue.count ?? 0 }

    /// Waits until all accepted requests are finished.
    nonisolated func idle() async throws {
        while await openRequests > 0 {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    // MARK: A client

    nonisolated func post(
        _ path: String, _ body: String, org: String = "org-1", headers: [HTTPField] = []
    ) async throws -> HTTPClientResponse {
        let (session, endpoint) = await (client, endpoint)
        let base = "http://\(endpoint)/api/v1.0/orgs/\(org)/pushdeviceregistration"
        return try await #require(session).session.response(
            to: HTTPClientRequest(method: "POST", url: base + path, headers: headers, body: Array(body.utf8)))
    }

    private struct Client: Sendable {
        let session: HTTPSession
    }

    private var client: Client? { session.map { Client(session: $0) } }

    nonisolated func status(_ ids: [String], app: String = app, apiToken: String = apiToken) async throws -> String {
        let list = ids.map { "\"\($0)\"" }.joined(separator: ",")
        let response = try await post(
            "/devices/status/",
            #"{"RegistrationRequestIds":[\#(list)],"MobileAppId":"\#(app)","ApiToken":"\#(apiToken)"}"#)
        #expect(response.status == 200)
        // The members of the array may be in any order.
        let outcomes = try #require(try JSONValue(response.body).array)
        let texts = try outcomes.map { outcome in
            guard case .object(let members) = outcome else { return "no object" }
            return try members.map { "\"\($0.key)\":\"\(try #require($0.value.string))\"" }.sorted().joined(
                separator: ",")
        }
        return "[\(texts.map { "{\($0)}" }.joined(separator: ","))]"
    }

    /// Registers one device and asks for tracking.
    ///
    /// - Returns: the id of the device registration request.
    nonisolated func register(_ body: String, org: String = "org-1") async throws -> String {
        let response = try await post("/devices", body, org: org, headers: [.tracked])
        #expect(response.status == 202)
        return try #require(response.registrationID)
    }

    /// Registers one device. The outcome of the registration is sent to the callback URL.
    nonisolated func register(
        fcm: String, apiToken: String = apiToken, callback: String, at place: SourceLocation = #_sourceLocation
    ) async throws {
        let status = try await post(
            "/devices", Self.body(fcm: fcm, apiToken: apiToken), headers: [HTTPField("x-ms-callback-url", callback)]
        ).status
        #expect(status == 202, sourceLocation: place)
    }

    /// Registers several devices and asks for tracking.
    ///
    /// - Returns: the ids of the requests.
    nonisolated func registerBatch(_ items: [String]) async throws -> [String] {
        let response = try await post("/devices/batch", "[\(items.joined(separator: ","))]", headers: [.tracked])
        #expect(response.status == 202)
        return try #require(response.registrationIDs)
    }

    /// Registers one device and asks for tracking.
    ///
    /// - Returns: the outcome as the status call reports it.
    nonisolated func outcome(_ body: String) async throws -> String {
        let id = try await register(body)
        try await idle()
        return try await status([id])
    }

    // MARK: Expectations

    /// Sends a request, and expects `status` in the answer.
    nonisolated func expect(
        _ status: Int, _ path: String, _ body: String, org: String = "org-1",
        at place: SourceLocation = #_sourceLocation
    ) async throws {
        let answered = try await post(path, body, org: org).status
        #expect(answered == status, "\(path)", sourceLocation: place)
    }

    /// Asks for the status of requests, and expects the given outcomes.
    nonisolated func expect(
        _ outcomes: Outcome..., of ids: [String], app: String = app, apiToken: String = apiToken,
        at place: SourceLocation = #_sourceLocation
    ) async throws {
        let told = try await self.status(ids, app: app, apiToken: apiToken)
        #expect(told == "[\(outcomes.map(\.text).joined(separator: ","))]", sourceLocation: place)
    }

    /// Registers a device, and expects the given outcome.
    nonisolated func expect(
        _ outcome: Outcome, for body: String, at place: SourceLocation = #_sourceLocation
    ) async throws {
        let told = try await self.outcome(body)
        #expect(told == "[\(outcome.text)]", sourceLocation: place)
    }

    /// Expects that the user has exactly the given devices, in any order.
    nonisolated func expect(
        _ tokens: Set<String>, of user: String, at place: SourceLocation = #_sourceLocation
    ) async {
        let kept = await devices(of: user)
        #expect(Set(kept) == tokens && kept.count == tokens.count, sourceLocation: place)
    }

    static func body(
        user: String = "alice", fcm: String? = nil, apns: String? = nil, app: String = app, apiToken: String = apiToken
    ) -> String {
        var members = [#""MobileAppId":"\#(app)","UserId":"\#(user)","ApiToken":"\#(apiToken)""#]
        if let fcm { members.append(#""FcmDeviceToken":"\#(fcm)""#) }
        if let apns { members.append(#""ApnsDeviceToken":"\#(apns)""#) }
        return "{\(members.joined(separator: ","))}"
    }

    static func cleanup(user: String = "alice", token: String? = nil, app: String = app) -> String {
        let token = token.map { #","DeviceToken":"\#($0)""# } ?? ""
        return #"{"MobileAppId":"\#(app)","UserId":"\#(user)","ApiToken":"\#(apiToken)"\#(token)}"#
    }
}

/// The outcome of a registration, as the status call reports it.
enum Outcome {
    case success, pending
    case failed(String)

    var text: String {
        switch self {
        case .success: #"{"Status":"Success"}"#
        case .pending: #"{"Status":"Pending"}"#
        case .failed(let reason): #"{"FailureReason":"\#(reason)","Status":"Failed"}"#
        }
    }
}

extension HTTPField {
    static let tracked = HTTPField("X-MS-Track-Registration", "true")
}

extension HTTPClientResponse {
    private struct Acceptance: Decodable {
        let RegistrationRequestId: String
    }

    var registrationID: String? {
        (try? JSONDecoder().decode(Acceptance.self, from: Data(body)))?.RegistrationRequestId
    }

    var registrationIDs: [String]? {
        (try? JSONDecoder().decode([Acceptance].self, from: Data(body)))?.map(\.RegistrationRequestId)
    }
}

/// Runs a test with a device API of its own.
func withDeviceAPI(
    _ change: @Sendable (inout APISettings) -> Void = { _ in }, _ body: (DeviceAPI) async throws -> Void
) async throws {
    try await withLoop { loop in
        let folder = try StoreFolder()
        defer { folder.remove() }
        let api = DeviceAPI(loop, folder: folder, change)
        try await api.start()
        try await body(api)
        await api.stop()
    }
}
