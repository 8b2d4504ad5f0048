import Addressing
import Foundation
import HTTPClient
import JSON
import StoreTesting
import Telemetry
import TestSupport
import Testing

@testable import Control
@testable import HTTPServices
@testable import ProxyDaemon
@testable import ProxyRuntime

@Suite("Mobile apps in the store", .timeLimit(.minutes(10)))
struct MobileAppTests {
    private static let id = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"

    private func request(_ name: String = "shop", id: String = id) throws -> (AppRequest, AppToken) {
        let token = try AppToken.make()
        var request = AppRequest(name: name, id: id, org: "Org-1", token: token)
        request.fcmParam = "my-project"
        request.user = "{{user}}@example.org"
        return (request, token)
    }

    private var fixed: MobileAppSettings {
        var app = MobileAppSettings()
        app.id = Self.id
        app.organisation = "org"
        app.tokenHashes = [[UInt8](repeating: 1, count: 32)]
        return app
    }

    // MARK: Without a daemon

    @Test func `apps are stored with the hash of their token, listed and removed`() throws {
        let folder = try StoreFolder()
        let offline = OfflineStore(folder.place)
        let (request, token) = try request()
        try offline.add(request)
        let app = try #require(try offline.mobileApps().first)
        #expect(app.name == "shop" && app.id == Self.id && app.org == "Org-1" && app.fcmParam == "my-project")
        #expect(app.user == "{{user}}@example.org" && app.apnsProvider == "apns" && !app.isFixed)
        #expect(throws: StartError.self) { try offline.add(request) }
        #expect(throws: StartError.self) {
            try offline.add(AppRequest(name: "other", id: Self.id, org: "o", token: token))
        }
        for file in try FileManager.default.contentsOfDirectory(atPath: folder.folder) {
            let bytes = try Data(contentsOf: URL(filePath: folder.folder + "/" + file))
            #expect(bytes.firstRange(of: Data(token.text.utf8)) == nil)
        }
        try offline.removeApp("shop")
        #expect(throws: StartError.self) { try offline.removeApp("shop") }
        #expect(try offline.mobileApps().isEmpty)
    }

    @Test func `apps of the settings win`() throws {
        let folder = try StoreFolder()
        let (request, _) = try request()
        try OfflineStore(folder.place).add(request)
        let named = OfflineStore(folder.place, apps: ["web": fixed])
        #expect(try named.mobileApps().map(\.name) == ["web"])
        #expect(try named.mobileApps().first?.isFixed == true)
        #expect(throws: StartError.self) { try named.removeApp("web") }
        #expect(throws: StartError.self) {
            try named.add(AppRequest(name: "web", id: AppRequest.newID(), org: "o", token: try AppToken.make()))
        }
        #expect(throws: StartError.self) {
            try named.add(AppRequest(name: "new", id: Self.id.uppercased(), org: "o", token: try AppToken.make()))
        }
    }

    @Test(arguments: [
        ("a b", id, "o", nil, nil), ("a", "no-guid", "o", nil, nil), ("a", id, "", nil, nil),
        ("a", id, "o", "user", nil),
        ("a", id, "o", "{{user}}{{user}}", nil), ("a", id, "o", nil, "google"), ("a", id, "o\n", nil, nil),
        ("a", id, String(repeating: "o", count: 257), nil, nil),
    ])
    func `invalid apps are refused`(name: String, id: String, org: String, user: String?, provider: String?) throws {
        let folder = try StoreFolder()
        var request = AppRequest(name: name, id: id, org: org, token: try AppToken.make())
        request.user = user
        request.apnsProvider = provider
        #expect(throws: StartError.self) { try OfflineStore(folder.place).add(request) }
    }

    // MARK: With a daemon

    private func body(_ token: AppToken) -> String {
        #"{"MobileAppId":"\#(Self.id)","UserId":"alice","ApiToken":"\#(token.text)","FcmDeviceToken":"fcm-token-1"}"#
    }

    private func register(_ daemon: RunningDaemon, _ token: AppToken) async throws -> Bool {
        let body = body(token)
        let answer = try await daemon.answer(
            "POST /api/v1.0/orgs/org-1/pushdeviceregistration/devices HTTP/1.1\r\nHost: a\r\n"
                + "x-ms-track-registration: true\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)"
        )
        #expect(answer.hasPrefix("HTTP/1.1 202 "))
        let id = try #require(answer.firstMatch(of: /"RegistrationRequestId":"([^"]+)"/)).output.1
        let status =
            #"{"RegistrationRequestIds":["\#(id)"],"MobileAppId":"\#(Self.id)","ApiToken":"\#(token.text)"}"#
        // A registration that a stranger has sent stays pending forever. The app's own registration fails, because the
        // daemon cannot reach Google in this test.
        for _ in 0..<200 {
            let outcome = try await daemon.answer(
                "POST /api/v1.0/orgs/org-1/pushdeviceregistration/devices/status HTTP/1.1\r\nHost: a\r\n"
                    + "Content-Length: \(status.utf8.count)\r\nConnection: close\r\n\r\n\(status)")
            if outcome.contains("Failed") { return true }
            guard await daemon.isKnown(token) else { return false }
        }
        return false
    }

    @Test func `an added app is valid at once, and a removed one is not, also after restarts`() async throws {
        let folder = try StoreFolder()
        let (request, token) = try request()
        let text = String(decoding: try JSONEncoder().encode(request), as: UTF8.self)
        let change: @Sendable (inout DaemonSettings) -> Void = { $0.admin.listen = [Endpoint(.loopbackV4, 0)] }

        var daemon = try await RunningDaemon.start(folder, change)
        #expect(try await register(daemon, token) == false)
        #expect(try await daemon.order("PUT", "/v1/apps", text).status == 200)
        #expect(try await daemon.order("PUT", "/v1/apps", text).status == 409)
        #expect(try await register(daemon, token) == true)
        #expect(try await daemon.order("GET", "/v1/apps").body.contains(#""name":"shop""#))
        #expect(!daemon.log.lines.contains { $0.contains(token.text) })
        try await daemon.stop()

        daemon = try await RunningDaemon.start(folder, change)
        #expect(await daemon.isKnown(token))
        #expect(try await daemon.order("DELETE", "/v1/apps/shop").status == 200)
        #expect(await !daemon.isKnown(token))
        #expect(try await daemon.order("DELETE", "/v1/apps/shop").status == 404)
        try await daemon.stop()
    }

    @Test func `an app of the settings is listed and cannot be changed`() async throws {
        let fixed = fixed
        try await RunningDaemon.with({ settings in
            settings.admin.listen = [Endpoint(.loopbackV4, 0)]
            settings.api.mobileApps["web"] = fixed
        }) { daemon async throws in
            let (request, _) = try request("web", id: AppRequest.newID())
            let text = String(decoding: try JSONEncoder().encode(request), as: UTF8.self)
            let refusal = try await daemon.order("PUT", "/v1/apps", text)
            #expect(refusal.status == 409 && refusal.body.contains("settings"))
            #expect(try await daemon.order("DELETE", "/v1/apps/web").status == 409)
            #expect(try await daemon.order("GET", "/v1/apps").body.contains(#""isFixed":true"#))
        }
    }
}
