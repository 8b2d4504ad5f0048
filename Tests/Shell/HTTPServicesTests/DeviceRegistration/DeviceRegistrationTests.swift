import Bytes
import Foundation
import HTTPClient
import HTTPSemantics
import LoopTesting
import PushDelivery
import Storage
import StoreTesting
import Telemetry
import TestSupport
import Testing

@testable import HTTPServices

@Suite("Device registration over HTTP", .timeLimit(.minutes(10)))
struct DeviceRegistrationTests {
    // MARK: Accepted requests

    @Test func `without tracking the answer is 202 and empty, and the device is there`() async throws {
        try await withDeviceAPI { api in
            let response = try await api.post("/devices", DeviceAPI.body(fcm: "f1"))
            #expect(response.status == 202)
            #expect(response.body.isEmpty)
            try await api.idle()
            await api.expect(["fcm:my-project:f1"], of: "alice")
            for value in ["false", "", "1"] {
                let response = try await api.post(
                    "/devices", DeviceAPI.body(fcm: "f2"), headers: [HTTPField("x-ms-track-registration", value)])
                #expect(response.status == 202)
                #expect(response.body.isEmpty)
            }
        }
    }

    @Test func `with tracking, the answer has an id whose status can be asked for`() async throws {
        try await withDeviceAPI { api in
            let response = try await api.post(
                "/devices", DeviceAPI.body(apns: "aabb"), headers: [HTTPField("x-ms-track-registration", "TRUE")])
            #expect(response.status == 202)
            #expect(response.header("content-type") == "application/json")
            let id = try #require(response.registrationID)
            #expect(UUID(uuidString: id) != nil)
            try await api.idle()
            try await api.expect(.success, of: [id])
            try await api.expect(.success, of: [id.uppercased()])
            let devices = await api.devices(of: "alice")
            #expect(devices == ["apns:TEAM.com.example.phone:aabb"])
            try await api.expect(
                200, "/devices/status",
                #"{"RegistrationRequestIds":["\#(id)"],"MobileAppId":"\#(DeviceAPI.app)","ApiToken":"api-token-1"}"#)
        }
    }

    @Test func `a batch is answered and reported in the order of the request`() async throws {
        try await withDeviceAPI { api in
            let users = (0..<100).map { "user\($0)" }
            let items = users.map { DeviceAPI.body(user: $0, fcm: $0 == "user7" ? "dead" : "token-\($0)") }
            let ids = try await api.registerBatch(items)
            #expect(ids.count == 100)
            #expect(Set(ids).count == 100)
            try await api.idle()
            try await api.expect(.success, of: [ids[6]])
            try await api.expect(.failed("DryRunSendingFailed"), of: [ids[7]])
            try await api.expect(.failed("DryRunSendingFailed"), .success, of: [ids[7], ids[8]])
            await api.expect(["fcm:my-project:token-user99"], of: "user99")
        }
    }

    @Test(arguments: [0, 101])
    func `an empty batch, or one of more than a hundred, is refused`(count: Int) async throws {
        try await withDeviceAPI { api in
            let items = (0..<count).map { DeviceAPI.body(user: "u\($0)", fcm: "t") }.joined(separator: ",")
            try await api.expect(400, "/devices/batch", "[\(items)]")
            let cleanups = (0..<count).map { _ in DeviceAPI.cleanup() }.joined(separator: ",")
            try await api.expect(400, "/devices/cleanup/batch", "[\(cleanups)]")
        }
    }

    @Test func `one bad item refuses its whole batch`() async throws {
        try await withDeviceAPI { api in
            let response = try await api.post(
                "/devices/batch", "[\(DeviceAPI.body(fcm: "good")),\(DeviceAPI.body())]", headers: [.tracked])
            #expect(response.status == 400)
            try await api.idle()
            await api.expect([], of: "alice")
        }
    }

    private static let app = DeviceAPI.app

    @Test(arguments: [
        DeviceAPI.body(), DeviceAPI.body(fcm: "f", apns: "a"), DeviceAPI.body(fcm: ""),
        DeviceAPI.body(user: "", fcm: "f"),
        DeviceAPI.body(fcm: "f", app: "shop"), DeviceAPI.body(fcm: "f", app: "{\(app)}"),
        DeviceAPI.body(fcm: "f", app: ""),
        DeviceAPI.body(fcm: "f", app: String(app.dropLast())), DeviceAPI.body(fcm: "f", app: app + "0"),
        DeviceAPI.body(fcm: "f", app: app.replacing("-", with: "")), DeviceAPI.body(fcm: "f", apiToken: ""),
        #"{"UserId":"u","ApiToken":"t","FcmDeviceToken":"f"}"#,
        #"{"MobileAppId":"\#(app)","ApiToken":"t","FcmDeviceToken":"f"}"#,
        #"{"MobileAppId":"\#(app)","UserId":"u","FcmDeviceToken":"f"}"#,
        #"{"MobileAppId":"\#(app)","UserId":7,"ApiToken":"t","FcmDeviceToken":"f"}"#,
        #"{"MobileAppId":"\#(app)","UserId":"u","ApiToken":["t"],"FcmDeviceToken":"f"}"#,
        #"{"MobileAppId":"\#(app)","UserId":"u","ApiToken":"t","FcmDeviceToken":{}}"#,
        #"{"MobileAppId":null,"UserId":"u","ApiToken":"t","FcmDeviceToken":"f"}"#,
        "", " ", "{}", "[]", "null", "7", "\"x\"", "[[]]", "{", "}", "{\"a\":}", "{\"a\":1,}", "\u{feff}{}", "{'a':1}",
        "NaN",
        String(repeating: "[", count: 40_000), String(repeating: "{\"a\":", count: 5_000),
        "[\(String(repeating: "0,", count: 60_000))0]", "{\"a\":1e999999999}", "\"\\ud800\"", "{\"a\":\"\\u0000\"}",
        "[null]", "[7]", "[\"x\"]", "[{}]",
    ])
    func `an invalid registration is 400 on every path, and never a server error`(body: String) async throws {
        try await withDeviceAPI { api in
            for path in ["/devices", "/devices/batch", "/devices/status", "/devices/status/"] {
                try await api.expect(400, path, body)
            }
            for path in ["/devices/cleanup", "/devices/cleanup/batch"] {
                let status = try await api.post(path, body).status
                #expect(status == 400 || status == 202, "\(path)")
            }
            await api.expect([], of: "alice")
        }
    }

    @Test func `null and empty tokens count as missing`() async throws {
        try await withDeviceAPI { api in
            let body = DeviceAPI.body(fcm: "f").dropLast() + #","ApnsDeviceToken":null}"#
            try await api.expect(.success, for: String(body))
        }
    }

    @Test func `other methods and paths are not served`() async throws {
        try await withDeviceAPI { api in
            try await api.expect(404, "/devices/", DeviceAPI.body(fcm: "f"))
            try await api.expect(404, "/devices/other", DeviceAPI.body(fcm: "f"))
            try await api.expect(404, "/devices", DeviceAPI.body(fcm: "f"), org: "a/b")
        }
    }

    // MARK: Outcomes

    @Test func `the same device again is a duplicate, until it is cleaned up or lost`() async throws {
        try await withDeviceAPI { api in
            let body = DeviceAPI.body(fcm: "f1")
            try await api.expect(.success, for: body)
            try await api.expect(.failed("DuplicateExists"), for: body)
            // Registrations with another token, another user or another app register other devices.
            try await api.expect(.success, for: DeviceAPI.body(fcm: "f2"))
            try await api.expect(.success, for: DeviceAPI.body(user: "bob", fcm: "f1"))
            let id = try await api.register(DeviceAPI.body(fcm: "f1", app: DeviceAPI.otherApp))
            try await api.idle()
            try await api.expect(.success, of: [id], app: DeviceAPI.otherApp)
            // The provider has reported the token as dead, and the daemon has removed the device.
            await api.forget("alice")
            try await api.expect(.success, for: body)
            try await api.expect(202, "/devices/cleanup", DeviceAPI.cleanup(token: "f1"))
            try await api.expect(.success, for: body)
        }
    }

    @Test func `a device that the directory has lost is forgotten with the next registration`() async throws {
        try await withDeviceAPI { api in
            for token in ["f1", "f2"] {
                try await api.expect(.success, for: DeviceAPI.body(fcm: token))
            }
            _ = try await api.outcome(DeviceAPI.body(user: "bob", fcm: "f1"))
            #expect(try api.folder.rowCounts()["mobile_device"] == 3)
            await api.forget("alice")
            _ = try await api.outcome(DeviceAPI.body(fcm: "f2"))
            _ = try await api.outcome(DeviceAPI.body(apns: "aabb"))
            #expect(try api.folder.rowCounts()["mobile_device"] == 3)
            try await api.expect(.failed("DuplicateExists"), for: DeviceAPI.body(user: "bob", fcm: "f1"))
        }
    }

    /// The test covers both orders of the two apps.
    @Test(arguments: [[DeviceAPI.app, DeviceAPI.otherApp], [DeviceAPI.otherApp, DeviceAPI.app]], [nil, "f1"])
    func `a device of two apps goes with the last of them`(apps: [String], token: String?) async throws {
        try await withDeviceAPI { api in
            for app in apps {
                _ = try await api.register(DeviceAPI.body(fcm: "f1", app: app))
                try await api.idle()
            }
            // The device of another user in the same app must not keep alice's device from being removed.
            _ = try await api.register(DeviceAPI.body(user: "bob", fcm: "f1"))
            try await api.idle()
            let device = "fcm:my-project:f1"
            await api.expect([device], of: "alice")
            try await api.expect(202, "/devices/cleanup", DeviceAPI.cleanup(token: token, app: apps[0]))
            try await api.idle()
            await api.expect([device], of: "alice")
            // The second clean-up removes no device, because the first app no longer has the token.
            try await api.expect(202, "/devices/cleanup", DeviceAPI.cleanup(token: token, app: apps[0]))
            try await api.idle()
            await api.expect([device], of: "alice")
            try await api.expect(202, "/devices/cleanup", DeviceAPI.cleanup(token: token, app: apps[1]))
            try await api.idle()
            await api.expect([], of: "alice")
            await api.expect([device], of: "bob")
            #expect(try api.folder.rowCounts()["mobile_device"] == 1)
        }
    }

    @Test func `of two clean-ups at once neither leaves the device to the other`() async throws {
        try await withDeviceAPI { api in
            for app in [DeviceAPI.app, DeviceAPI.otherApp] {
                _ = try await api.register(DeviceAPI.body(fcm: "f1", app: app))
                try await api.idle()
            }
            let both = [DeviceAPI.app, DeviceAPI.otherApp].map { DeviceAPI.cleanup(app: $0) }.joined(separator: ",")
            try await api.expect(202, "/devices/cleanup/batch", "[\(both)]")
            try await api.idle()
            await api.expect([], of: "alice")
        }
    }

    @Test func `twice in one batch, the second is the duplicate`() async throws {
        try await withDeviceAPI { api in
            let body = DeviceAPI.body(fcm: "f1")
            let ids = try await api.registerBatch([body, body])
            try await api.idle()
            try await api.expect(.success, .failed("DuplicateExists"), of: ids)
        }
    }

    @Test func `a token of 4096 characters is the longest`() async throws {
        try await withDeviceAPI { api in
            let longest = String(repeating: "a", count: 4096)
            try await api.expect(.success, for: DeviceAPI.body(fcm: longest))
            try await api.expect(.failed("DeviceTokenTooLong"), for: DeviceAPI.body(fcm: longest + "a"))
            try await api.expect(
                .failed("DeviceTokenTooLong"), for: DeviceAPI.body(fcm: String(repeating: "a", count: 500_000)))
        }
    }

    @Test func `a token that the provider refuses is not kept`() async throws {
        try await withDeviceAPI { api in
            try await api.expect(.failed("DryRunSendingFailed"), for: DeviceAPI.body(fcm: "dead-1"))
            #expect(try await api.pushes.next().prid.string == "dead-1")
            try await api.expect(.failed("DryRunSendingFailed"), for: DeviceAPI.body(user: "off", fcm: "f"))
            try await api.expect(.failed("DryRunSendingFailed"), for: DeviceAPI.body(apns: "a:b:c"))
            await api.expect([], of: "alice")
        }
    }

    @Test func `a token that is only for calls is accepted without a dry run`() async throws {
        try await withDeviceAPI { api in
            let id = try await api.register(DeviceAPI.body(apns: "aabb", app: DeviceAPI.otherApp))
            try await api.idle()
            try await api.expect(.success, of: [id], app: DeviceAPI.otherApp)
        }
    }

    @Test(arguments: [
        "full", "a b", "a;b", "a/b", "a@b@example.org", "a@evil.example", "<a>", "a%40b", "@example.org", "\\u0000",
        "ä",
        String(repeating: "a", count: 257),
    ])
    func `a device that its user cannot have is a failure`(user: String) async throws {
        try await withDeviceAPI { api in
            try await api.expect(.failed("FailedToStoreDevice"), for: DeviceAPI.body(user: user, fcm: "f"))
        }
    }

    @Test func `users are found by the app's template`() async throws {
        try await withDeviceAPI {
            $0.mobileApps["other"]?.user = UserTemplate("u-{{user}}@example.net") ?? .plain
        } _: { api in
            _ = try await api.post("/devices", DeviceAPI.body(user: "bob@EXAMPLE.net", fcm: "f"))
            _ = try await api.post("/devices", DeviceAPI.body(user: "7", fcm: "f", app: DeviceAPI.otherApp))
            try await api.idle()
            let bob = await api.devices(of: "bob", at: "example.net")
            #expect(bob.count == 1)
            let seven = await api.devices(of: "u-7", at: "example.net")
            #expect(seven.count == 1)
        }
    }

    @Test func `a template names the user once`() {
        #expect(UserTemplate("{{user}}")?.text(for: "a") == "a")
        #expect(UserTemplate("x-{{user}}@example.net")?.text(for: "a") == "x-a@example.net")
        for text in ["", "user", "{{user}}{{user}}", "{{user}} @x", "{{user}};x", "<{{user}}>"] {
            #expect(UserTemplate(text) == nil, "\(text)")
        }
    }

    // MARK: Three errors that leave a registration pending

    @Test func `a wrong API token, app or organisation stays pending, and nothing is kept`() async throws {
        try await withDeviceAPI { api in
            for (body, org) in [
                (DeviceAPI.body(fcm: "f", apiToken: "wrong"), "org-1"),
                (DeviceAPI.body(fcm: "f", app: "99999999-2222-3333-4444-555555555555"), "org-1"),
                (DeviceAPI.body(fcm: "f"), "org-2"),
            ] {
                let id = try await api.register(body, org: org)
                try await api.idle()
                try await api.expect(.pending, of: [id])
            }
            await api.expect([], of: "alice")
        }
    }

    @Test func `a right and a wrong API token in one batch go their own ways`() async throws {
        try await withDeviceAPI { api in
            let items = [DeviceAPI.body(fcm: "a", apiToken: "wrong"), DeviceAPI.body(fcm: "b")]
            let ids = try await api.registerBatch(items)
            try await api.idle()
            try await api.expect(.pending, .success, of: ids)
        }
    }

    @Test func `an unfinished registration is pending`() async throws {
        try await withDeviceAPI { api in
            await api.hold()
            let id = try await api.register(DeviceAPI.body(fcm: "f"))
            _ = try await api.pushes.next()
            try await api.expect(.pending, of: [id])
            await api.release()
            try await api.idle()
            try await api.expect(.success, of: [id])
        }
    }

    @Test func `unknown ids are pending, and so are others' ids`() async throws {
        try await withDeviceAPI { api in
            let id = try await api.register(DeviceAPI.body(fcm: "f"))
            try await api.idle()
            try await api.expect(.pending, of: [UUID().uuidString])
            try await api.expect(.pending, of: [id], app: DeviceAPI.otherApp)
            try await api.expect(.pending, of: [id], apiToken: "wrong")
            try await api.expect(of: [])
            try await api.expect(.pending, .success, of: [UUID().uuidString, id])
            try await api.expect(
                400, "/devices/status",
                #"{"RegistrationRequestIds":["x"],"MobileAppId":"\#(DeviceAPI.app)","ApiToken":"api-token-1"}"#)
        }
    }

    // MARK: Cleanups

    @Test func `one device is removed, or all of the user in that app, and no others`() async throws {
        try await withDeviceAPI { api in
            for body in [
                DeviceAPI.body(fcm: "f1"), DeviceAPI.body(fcm: "f2"), DeviceAPI.body(apns: "aa"),
                DeviceAPI.body(fcm: "f3", app: DeviceAPI.otherApp), DeviceAPI.body(user: "bob", fcm: "f1"),
            ] { _ = try await api.post("/devices", body) }
            await api.register("by-sip", for: "alice")
            let one = try await api.post("/devices/cleanup", DeviceAPI.cleanup(token: "f1"))
            #expect(one.status == 202)
            #expect(one.body.isEmpty)
            // The three tokens belong to another app, to a device known only by SIP, and to no device.
            for token in ["f3", "by-sip", "unknown"] {
                try await api.expect(202, "/devices/cleanup", DeviceAPI.cleanup(token: token))
            }
            try await api.idle()
            await api.expect(
                ["fcm:my-project:f2", "apns:TEAM.com.example.phone:aa", "fcm:my-project:f3", "fcm:sip:by-sip"],
                of: "alice")
            try await api.expect(202, "/devices/cleanup", DeviceAPI.cleanup())
            try await api.idle()
            await api.expect(["fcm:my-project:f3", "fcm:sip:by-sip"], of: "alice")
            await api.expect(["fcm:my-project:f1"], of: "bob")
        }
    }

    @Test(arguments: [",\"DeviceToken\":\"\"", ",\"DeviceToken\":null", ""])
    func `no token, an empty one and null mean all devices`(member: String) async throws {
        try await withDeviceAPI { api in
            for token in ["f1", "f2"] { _ = try await api.post("/devices", DeviceAPI.body(fcm: token)) }
            let body = DeviceAPI.cleanup().dropLast() + member + "}"
            #expect(try await api.post("/devices/cleanup", String(body)).status == 202)
            try await api.idle()
            await api.expect([], of: "alice")
        }
    }

    @Test func `a batch of clean-ups is an array, or one object as some documentation has it`() async throws {
        try await withDeviceAPI { api in
            for user in ["a", "b", "c"] { _ = try await api.post("/devices", DeviceAPI.body(user: user, fcm: "f")) }
            let array = "[\(DeviceAPI.cleanup(user: "a")),\(DeviceAPI.cleanup(user: "b", token: "f"))]"
            let first = try await api.post("/devices/cleanup/batch", array)
            #expect(first.status == 202)
            #expect(first.body.isEmpty)
            let second = try await api.post("/devices/cleanup/batch", DeviceAPI.cleanup(user: "c"))
            #expect(second.status == 202)
            try await api.idle()
            for user in ["a", "b", "c"] {
                await api.expect([], of: user)
            }
        }
    }

    @Test func `a clean-up does not overtake the registration before it`() async throws {
        try await withDeviceAPI { api in
            await api.hold()
            _ = try await api.post("/devices", DeviceAPI.body(fcm: "f"))
            _ = try await api.pushes.next()
            try await api.expect(202, "/devices/cleanup", DeviceAPI.cleanup())
            await api.release()
            try await api.idle()
            await api.expect([], of: "alice")
        }
    }

    @Test func `a clean-up with a wrong API token does nothing`() async throws {
        try await withDeviceAPI { api in
            _ = try await api.post("/devices", DeviceAPI.body(fcm: "f"))
            let body = DeviceAPI.cleanup().replacing("api-token-1", with: "api-token-2")
            try await api.expect(202, "/devices/cleanup", body)
            try await api.expect(202, "/devices/cleanup", DeviceAPI.cleanup(), org: "org-2")
            try await api.idle()
            let devices = await api.devices(of: "alice")
            #expect(devices.count == 1)
        }
    }

    // MARK: Restarts

    @Test func `outcomes survive a restart, and accepted registrations are completed after it`() async throws {
        try await withLoop { loop in
            let folder = try StoreFolder()
            defer { folder.remove() }
            let first = DeviceAPI(loop, folder: folder)
            try await first.start()
            let doneID = try await first.register(DeviceAPI.body(fcm: "f1"))
            try await first.idle()
            await first.hold()
            let openID = try await first.register(DeviceAPI.body(user: "bob", fcm: "f2"))
            _ = try await first.pushes.next()
            _ = try await first.pushes.next()
            try await first.expect(202, "/devices/cleanup", DeviceAPI.cleanup(user: "bob", token: "x"))
            await first.stop()

            let second = DeviceAPI(loop, folder: folder)
            try await second.start()
            try await second.idle()
            try await second.expect(.success, .success, of: [doneID, openID])
            await second.expect(["fcm:my-project:f2"], of: "bob")
            await second.stop()
        }
    }

    @Test func `old outcomes are forgotten`() async throws {
        try await withDeviceAPI {
            $0.deviceRegistration.historyAge = .seconds(-60)
        } _: { api in
            let id = try await api.register(DeviceAPI.body(fcm: "f"))
            try await api.idle()
            try await api.expect(.success, of: [id])
            await api.prune()
            // The store writes changes in the order of submission, so the second registration is written after the
            // removal.
            _ = try await api.post("/devices", DeviceAPI.body(fcm: "f2"))
            try await api.expect(.pending, of: [id])
        }
    }

    @Test func `the store keeps no tokens and webhook secrets, and the log has none`() async throws {
        try await withDeviceAPI { api in
            let secret = "s3cr3t-of-the-app"
            _ = try await api.post(
                "/devices", DeviceAPI.body(fcm: "dead-\(secret)"),
                headers: [
                    .tracked, HTTPField("x-ms-callback-url", "http://192.0.2.1/\(secret)"),
                    HTTPField("x-ms-callback-url-headers", #"{"x":"\#(secret)"}"#),
                ])
            try await api.idle()
            #expect(!api.logSink.lines.contains { $0.contains(secret) || $0.contains(DeviceAPI.apiToken) })
            var options = ConnectionOptions()
            options.access = .readOnly
            let kept = try Connection(path: api.folder.path, options: options).integer(
                """
                SELECT count(*) FROM device_request WHERE token <> '' OR user <> '' OR callback_url <> ''
                OR callback_signature <> '' OR callback_fields <> ''
                """)
            #expect(kept == 0)
        }
    }
}
