import Addressing
import Bytes
import JSON
import TestSupport
import Testing
import Timekeeping

@testable import PushDelivery

@Suite("Silent pushes")
struct SilentPushTests {
    private func rendering(
        _ provider: PushProvider, param: String, prid: String = "aabb", _ format: FCMBodyFormat = .v1
    ) throws -> PushRendering {
        var settings = PushSettings()
        settings.apns.enabled = true
        settings.apns.topics = ["com.example.phone"]
        settings.fcm.enabled = true
        settings.fcm.projectID = "my-project"
        settings.fcm.bodyFormat = format
        settings.acrobits.enabled = true
        let token = PushToken(provider: provider, param: ByteString(param), prid: ByteString(prid))
        let app = try #require(settings.app(of: token))
        let now = UnixTime(seconds: 1000)
        let push = PushRequest(
            id: PushID(rawValue: 1), code: PushCode(high: 1, low: 2), device: .nobody, token: token,
            message: .silent, badge: 0, deadline: UnixTime(seconds: 1030))
        return app.render(push, now: now)
    }

    private func request(_ rendering: PushRendering) throws -> ProviderRequest {
        guard case .request(let request) = rendering else {
            throw Missing()
        }
        return request
    }

    private struct Missing: Error {}

    private func isWithoutToken(_ rendering: PushRendering) -> Bool {
        if case .impossible(.noSuitableToken) = rendering { true } else { false }
    }

    @Test func `Apple gets a background push of priority 5 without any visible part`() throws {
        let request = try request(try rendering(.apns, param: "TEAM.com.example.phone"))
        #expect(String(decoding: request.body, as: UTF8.self) == #"{"aps":{"content-available":1}}"#)
        let headers = Dictionary(request.headers.map { ($0.name, $0.value) }) { first, _ in first }
        #expect(headers["apns-push-type"] == "background")
        #expect(headers["apns-priority"] == "5")
        #expect(headers["apns-topic"] == "com.example.phone")
    }

    @Test func `a token that is only for calls gets none, and neither do other providers`() throws {
        let voip = try rendering(.apns, param: "TEAM.com.example.phone.voip")
        #expect(isWithoutToken(voip))
        let acrobits = try rendering(.acrobits, param: "com.example.app")
        #expect(isWithoutToken(acrobits))
    }

    @Test func `Firebase is asked to validate only`() throws {
        let request = try request(try rendering(.fcm, param: "my-project", prid: "f\"1"))
        let text = String(decoding: request.body, as: UTF8.self)
        #expect(text == #"{"validate_only":true,"message":{"token":"f\"1"}}"#)
    }

    @Test func `its legacy interface is asked for a dry run`() throws {
        let request = try request(try rendering(.fcm, param: "1234", prid: "f\"1", .legacy))
        let body = try JSONValue(request.body)
        #expect(request.url.hasSuffix("/fcm/send"))
        #expect(body["to"] == "f\"1" && body["dry_run"] == .bool(true))
    }
}
