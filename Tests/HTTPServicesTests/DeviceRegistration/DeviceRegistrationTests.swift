import Foundation
import HTTPClient
import LoopTesting
import PushDelivery
import Storage
import StoreTesting
import Telemetry
import TestSupport
import Testing

@testable import HTTPServices

private let success = #"[{"Status":"Success"}]"#
private let pending = #"[{"Status":"Pending"}]"#
private func failed(_ reason: String) -> String { #"[{"FailureReason":"\#(reason)","Status":"Failed"}]"# }

@Suite("Device registration over HTTP", .timeLimit(.minutes(1)))
struct DeviceRegistrationTests {
    // MARK: What is accepted

    @Test func `without tracking the answer is 202 and empty, and the device is there`() async throws {
        try await withDeviceAPI { api in
            let response = try await api.post("/devices", DeviceAPI.body(fcm: "f1"))
            #expect(response.status == 202)
            #expect(response.body.isEmpty)
            try await api.idle()
            let devices = await api.devices(of: "alice")
            #expect(devices == ["fcm:my-project:f1"])
            for value in ["false", "", "1"] {
                let response = try await api.post(
                    "/devices", DeviceAPI.body(fcm: "f2"), headers: [HTTPHeader("x-ms-track-registration", value)])
                #expect(response.status == 202)
                #expect(response.body.isEmpty)
            }
        }
    }

    @Test func `with tracking the answer holds an id whose status is told`() async throws {
        try await withDeviceAPI { api in
            let response = try await api.post(
                "/devices", DeviceAPI.body(apns: "aabb"), headers: [HTTPHeader("x-ms-track-registration", "TRUE")])
            #expect(response.status == 202)
            #expect(response.header("content-type") == "application/json")
            let id = try #require(response.registrationID)
            #expect(UUID(uuidString: id) != nil)
            try await api.idle()
            let answer1 = try await api.status([id])
            #expect(answer1 == success)
            let answer2 = try await api.status([id.uppercased()])
            #expect(answer2 == success)
            let devices = await api.devices(of: "alice")
            #expect(devices == ["apns:TEAM.com.example.phone:aabb"])
            let bare = try await api.post(
                "/devices/status",
                #"{"RegistrationRequestIds":["\#(id)"],"MobileAppId":"\#(DeviceAPI.app)","ApiToken":"api-token-1"}"#)
            #expect(bare.status == 200)
        }
    }

    @Test func `a batch is answered and told in the order of the request`() async throws {
        try await withDeviceAPI { api in
            let users = (0..<100).map { "user\($0)" }
            let items = users.map { DeviceAPI.body(user: $0, fcm: $0 == "user7" ? "dead" : "token-\($0)") }
            let response = try await api.post(
                "/devices/batch", "[\(items.joined(separator: ","))]", headers: [.tracked])
            #expect(response.status == 202)
            let ids = try #require(response.registrationIDs)
            #expect(ids.count == 100)
            #expect(Set(ids).count == 100)
            try await api.idle()
            let answer3 = try await api.status([ids[6]])
            #expect(answer3 == success)
            let answer4 = try await api.status([ids[7]])
            #expect(answer4 == failed("DryRunSendingFailed"))
            let answer5 = try await api.status([ids[7], ids[8]])
            #expect(answer5 == #"[{"FailureReason":"DryRunSendingFailed","Status":"Failed"},{"Status":"Success"}]"#)
            let devices = await api.devices(of: "user99")
            #expect(devices == ["fcm:my-project:token-user99"])
        }
    }

    @Test(arguments: [0, 101])
    func `a batch of none or more than a hundred is refused`(count: Int) async throws {
        try await withDeviceAPI { api in
            let items = (0..<count).map { DeviceAPI.body(user: "u\($0)", fcm: "t") }.joined(separator: ",")
            let answer6 = try await api.post("/devices/batch", "[\(items)]").status
            #expect(answer6 == 400)
            let cleanups = (0..<count).map { _ in DeviceAPI.cleanup() }.joined(separator: ",")
            let answer7 = try await api.post("/devices/cleanup/batch", "[\(cleanups)]").status
            #expect(answer7 == 400)
        }
    }

    @Test func `one bad item refuses its whole batch`() async throws {
        try await withDeviceAPI { api in
            let response = try await api.post(
                "/devices/batch", "[\(DeviceAPI.body(fcm: "good")),\(DeviceAPI.body())]", headers: [.tracked])
            #expect(response.status == 400)
            try await api.idle()
            let devices = await api.devices(of: "alice")
            #expect(devices.isEmpty)
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
    func `what is no registration is 400 on every path, and never worse`(body: String) async throws {
        try await withDeviceAPI { api in
            for path in ["/devices", "/devices/batch", "/devices/status", "/devices/status/"] {
                let answer8 = try await api.post(path, body).status
                #expect(answer8 == 400, "\(path)")
            }
            for path in ["/devices/cleanup", "/devices/cleanup/batch"] {
                let status = try await api.post(path, body).status
                #expect(status == 400 || status == 202, "\(path)")
            }
            let devices = await api.devices(of: "alice")
            #expect(devices.isEmpty)
        }
    }

    @Test func `null and empty tokens count as none`() async throws {
        try await withDeviceAPI { api in
            let body = DeviceAPI.body(fcm: "f").dropLast() + #","ApnsDeviceToken":null}"#
            let answer9 = try await api.outcome(String(body))
            #expect(answer9 == success)
        }
    }

    @Test func `other methods and paths are not served`() async throws {
        try await withDeviceAPI { api in
            let answer10 = try await api.post("/devices/", DeviceAPI.body(fcm: "f")).status
            #expect(answer10 == 404)
            let answer11 = try await api.post("/devices/other", DeviceAPI.body(fcm: "f")).status
            #expect(answer11 == 404)
            let answer12 = try await api.post("/devices", DeviceAPI.body(fcm: "f"), org: "a/b").status
            #expect(answer12 == 404)
        }
    }

    // MARK: What becomes of it

    @Test func `the same device again is a duplicate, until it is cleaned up or lost`() async throws {
        try await withDeviceAPI { api in
            let body = DeviceAPI.body(fcm: "f1")
            let answer13 = try await api.outcome(body)
            #expect(answer13 == success)
            let answer14 = try await api.outcome(body)
            #expect(answer14 == failed("DuplicateExists"))
            // Another token, another user, another app: another device.
            let answer15 = try await api.outcome(DeviceAPI.body(fcm: "f2"))
            #expect(answer15 == success)
            let answer16 = try await api.outcome(DeviceAPI.body(user: "bob", fcm: "f1"))
            #expect(answer16 == success)
            let other = try await api.post(
                "/devices", DeviceAPI.body(fcm: "f1", app: DeviceAPI.otherApp), headers: [.tracked])
            let id = try #require(other.registrationID)
            try await api.idle()
            let answer17 = try await api.status([id], app: DeviceAPI.otherApp)
            #expect(answer17 == success)
            // The provider has declared the token dead, and the directory has dropped it.
            await api.forget("alice")
            let answer18 = try await api.outcome(body)
            #expect(answer18 == success)
            let answer19 = try await api.post("/devices/cleanup", DeviceAPI.cleanup(token: "f1")).status
            #expect(answer19 == 202)
            let answer20 = try await api.outcome(body)
            #expect(answer20 == success)
        }
    }

    @Test func `what the directory has lost is forgotten with the next registration`() async throws {
        try await withDeviceAPI { api in
            for token in ["f1", "f2"] {
                let outcome = try await api.outcome(DeviceAPI.body(fcm: token))
                #expect(outcome == success)
            }
            _ = try await api.outcome(DeviceAPI.body(user: "bob", fcm: "f1"))
            #expect(try api.folder.rowCounts()["mobile_device"] == 3)
            await api.forget("alice")
            _ = try await api.outcome(DeviceAPI.body(fcm: "f2"))
            _ = try await api.outcome(DeviceAPI.body(apns: "aabb"))
            #expect(try api.folder.rowCounts()["mobile_device"] == 3)
            let bob = try await api.outcome(DeviceAPI.body(user: "bob", fcm: "f1"))
            #expect(bob == failed("DuplicateExists"))
        }
    }

    @Test func `twice in one batch, the second is the duplicate`() async throws {
        try await withDeviceAPI { api in
            let body = DeviceAPI.body(fcm: "f1")
            let response = try await api.post("/devices/batch", "[\(body),\(body)]", headers: [.tracked])
            let ids = try #require(response.registrationIDs)
            try await api.idle()
            let answer21 = try await api.status(ids)
            #expect(answer21 == #"[{"Status":"Success"},{"FailureReason":"DuplicateExists","Status":"Failed"}]"#)
        }
    }

    @Test func `a token of 4096 characters is the longest`() async throws {
        try await withDeviceAPI { api in
            let longest = String(repeating: "a", count: 4096)
            let answer22 = try await api.outcome(DeviceAPI.body(fcm: longest))
            #expect(answer22 == success)
            let answer23 = try await api.outcome(DeviceAPI.body(fcm: longest + "a"))
            #expect(answer23 == failed("DeviceTokenTooLong"))
            let answer24 = try await api.outcome(DeviceAPI.body(fcm: String(repeating: "a", count: 500_000)))
            #expect(answer24 == failed("DeviceTokenTooLong"))
        }
    }

    @Test func `a token that the provider refuses is not kept`() async throws {
        try await withDeviceAPI { api in
            let answer25 = try await api.outcome(DeviceAPI.body(fcm: "dead-1"))
            #expect(answer25 == failed("DryRunSendingFailed"))
            let push = try await api.pushes.next()
            #expect(push.id.rawValue >> 63 == 1)
            #expect(push.isSilent)
            let answer26 = try await api.outcome(DeviceAPI.body(user: "off", fcm: "f"))
            #expect(answer26 == failed("DryRunSendingFailed"))
            let answer27 = try await api.outcome(DeviceAPI.body(apns: "a:b:c"))
            #expect(answer27 == failed("DryRunSendingFailed"))
            let devices = await api.devices(of: "alice")
            #expect(devices.isEmpty)
        }
    }

    @Test func `a token for calls alone is taken without a dry run`() async throws {
        try await withDeviceAPI { api in
            let response = try await api.post(
                "/devices", DeviceAPI.body(apns: "aabb", app: DeviceAPI.otherApp), headers: [.tracked])
            let id = try #require(response.registrationID)
            try await api.idle()
            let answer28 = try await api.status([id], app: DeviceAPI.otherApp)
            #expect(answer28 == success)
        }
    }

    @Test(arguments: [
        "full", "a b", "a;b", "a/b", "a@b@example.org", "a@evil.example", "<a>", "a%40b", "@example.org", "\\u0000",
        "ä",
        String(repeating: "a", count: 257),
    ])
    func `a user who cannot have the device is a failure to store`(user: String) async throws {
        try await withDeviceAPI { api in
            let answer29 = try await api.outcome(DeviceAPI.body(user: user, fcm: "f"))
            #expect(answer29 == failed("FailedToStoreDevice"))
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

    // MARK: The three that stay pending

    @Test func `a wrong API token, app or organisation stays pending, and nothing is kept`() async throws {
        try await withDeviceAPI { api in
            let bodies = [
                DeviceAPI.body(fcm: "f", apiToken: "wrong"),
                DeviceAPI.body(fcm: "f", app: "99999999-2222-3333-4444-555555555555"),
            ]
            var ids: [String] = []
            for body in bodies {
                let response = try await api.post("/devices", body, headers: [.tracked])
                #expect(response.status == 202)
                ids.append(try #require(response.registrationID))
            }
            let response = try await api.post(
                "/devices", DeviceAPI.body(fcm: "f"), org: "org-2", headers: [.tracked])
            #expect(response.status == 202)
            ids.append(try #require(response.registrationID))
            try await api.idle()
            for id in ids {
                let answer30 = try await api.status([id])
                #expect(answer30 == pending)
            }
            let devices = await api.devices(of: "alice")
            #expect(devices.isEmpty)
        }
    }

    @Test func `a right and a wrong API token in one batch go their own ways`() async throws {
        try await withDeviceAPI { api in
            let items = [DeviceAPI.body(fcm: "a", apiToken: "wrong"), DeviceAPI.body(fcm: "b")]
            let response = try await api.post(
                "/devices/batch", "[\(items.joined(separator: ","))]", headers: [.tracked])
            let ids = try #require(response.registrationIDs)
            try await api.idle()
            let answer31 = try await api.status(ids)
            #expect(answer31 == #"[{"Status":"Pending"},{"Status":"Success"}]"#)
        }
    }

    @Test func `what is not done yet is pending`() async throws {
        try await withDeviceAPI { api in
            await api.hold()
            let response = try await api.post("/devices", DeviceAPI.body(fcm: "f"), headers: [.tracked])
            let id = try #require(response.registrationID)
            _ = try await api.pushes.next()
            let answer32 = try await api.status([id])
            #expect(answer32 == pending)
            await api.release()
            try await api.idle()
            let answer33 = try await api.status([id])
            #expect(answer33 == success)
        }
    }

    @Test func `unknown ids are pending, and so are others' ids`() async throws {
        try await withDeviceAPI { api in
            let response = try await api.post("/devices", DeviceAPI.body(fcm: "f"), headers: [.tracked])
            let id = try #require(response.registrationID)
            try await api.idle()
            let answer34 = try await api.status([UUID().uuidString])
            #expect(answer34 == pending)
            let answer35 = try await api.status([id], app: DeviceAPI.otherApp)
            #expect(answer35 == pending)
            let answer36 = try await api.status([id], apiToken: "wrong")
            #expect(answer36 == pending)
            let answer37 = try await api.status([])
            #expect(answer37 == "[]")
            let answers = try await api.status([UUID().uuidString, id])
            #expect(answers == #"[{"Status":"Pending"},{"Status":"Success"}]"#)
            let bad = try await api.post(
                "/devices/status",
                #"{"RegistrationRequestIds":["x"],"MobileAppId":"\#(DeviceAPI.app)","ApiToken":"api-token-1"}"#)
            #expect(bad.status == 400)
        }
    }

    // MARK: Clean-ups

    @Test func `one device goes, or all of the user's in that app, and no others`() async throws {
        try await withDeviceAPI { api in
            for body in [
                DeviceAPI.body(fcm: "f1"), DeviceAPI.body(fcm: "f2"), DeviceAPI.body(apns: "aa"),
                DeviceAPI.body(fcm: "f3", app: DeviceAPI.otherApp), DeviceAPI.body(user: "bob", fcm: "f1"),
            ] { _ = try await api.post("/devices", body) }
            await api.register("by-sip", for: "alice")
            let one = try await api.post("/devices/cleanup", DeviceAPI.cleanup(token: "f1"))
            #expect(one.status == 202)
            #expect(one.body.isEmpty)
            // Neither is of this app.
            for token in ["f3", "by-sip", "unknown"] {
                let answer38 = try await api.post("/devices/cleanup", DeviceAPI.cleanup(token: token)).status
                #expect(answer38 == 202)
            }
            try await api.idle()
            var devices = await api.devices(of: "alice")
            #expect(
                Set(devices) == [
                    "fcm:my-project:f2", "apns:TEAM.com.example.phone:aa", "fcm:my-project:f3", "fcm:sip:by-sip",
                ])
            let answer39 = try await api.post("/devices/cleanup", DeviceAPI.cleanup()).status
            #expect(answer39 == 202)
            try await api.idle()
            devices = await api.devices(of: "alice")
            #expect(Set(devices) == ["fcm:my-project:f3", "fcm:sip:by-sip"])
            devices = await api.devices(of: "bob")
            #expect(devices == ["fcm:my-project:f1"])
        }
    }

    @Test(arguments: [",\"DeviceToken\":\"\"", ",\"DeviceToken\":null", ""])
    func `no token, an empty one and null mean all devices`(member: String) async throws {
        try await withDeviceAPI { api in
            for token in ["f1", "f2"] { _ = try await api.post("/devices", DeviceAPI.body(fcm: token)) }
            let body = DeviceAPI.cleanup().dropLast() + member + "}"
            #expect(try await api.post("/devices/cleanup", String(body)).status == 202)
            try await api.idle()
            #expect(await api.devices(of: "alice").isEmpty)
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
                let devices = await api.devices(of: user)
                #expect(devices.isEmpty)
            }
        }
    }

    @Test func `a clean-up does not overtake the registration before it`() async throws {
        try await withDeviceAPI { api in
            await api.hold()
            _ = try await api.post("/devices", DeviceAPI.body(fcm: "f"))
            _ = try await api.pushes.next()
            let answer40 = try await api.post("/devices/cleanup", DeviceAPI.cleanup()).status
            #expect(answer40 == 202)
            await api.release()
            try await api.idle()
            let devices = await api.devices(of: "alice")
            #expect(devices.isEmpty)
        }
    }

    @Test func `a clean-up with a wrong API token does nothing`() async throws {
        try await withDeviceAPI { api in
            _ = try await api.post("/devices", DeviceAPI.body(fcm: "f"))
            let body = DeviceAPI.cleanup().replacing("api-token-1", with: "api-token-2")
            let answer41 = try await api.post("/devices/cleanup", body).status
            #expect(answer41 == 202)
            let answer42 = try await api.post("/devices/cleanup", DeviceAPI.cleanup(), org: "org-2").status
            #expect(answer42 == 202)
            try await api.idle()
            let devices = await api.devices(of: "alice")
            #expect(devices.count == 1)
        }
    }

    // MARK: Restarts

    @Test func `outcomes survive a restart, and what was accepted is done after it`() async throws {
        try await withLoop { loop in
            let folder = try StoreFolder()
            defer { folder.remove() }
            let first = DeviceAPI(loop, folder: folder)
            try await first.start()
            let done = try await first.post("/devices", DeviceAPI.body(fcm: "f1"), headers: [.tracked])
            let doneID = try #require(done.registrationID)
            try await first.idle()
            await first.hold()
            let open = try await first.post("/devices", DeviceAPI.body(user: "bob", fcm: "f2"), headers: [.tracked])
            let openID = try #require(open.registrationID)
            _ = try await first.pushes.next()
            _ = try await first.pushes.next()
            let answer43 = try await first.post("/devices/cleanup", DeviceAPI.cleanup(user: "bob", token: "x")).status
            #expect(answer43 == 202)
            await first.stop()

            let second = DeviceAPI(loop, folder: folder)
            try await second.start()
            try await second.idle()
            let answer44 = try await second.status([doneID, openID])
            #expect(answer44 == #"[{"Status":"Success"},{"Status":"Success"}]"#)
            let devices = await second.devices(of: "bob")
            #expect(devices == ["fcm:my-project:f2"])
            await second.stop()
        }
    }

    @Test func `old outcomes are forgotten`() async throws {
        try await withDeviceAPI {
            $0.deviceRegistration.historyAge = .seconds(-60)
        } _: { api in
            let response = try await api.post("/devices", DeviceAPI.body(fcm: "f"), headers: [.tracked])
            let id = try #require(response.registrationID)
            try await api.idle()
            let answer45 = try await api.status([id])
            #expect(answer45 == success)
            await api.prune()
            // Written after the pruning: in the order of submission.
            _ = try await api.post("/devices", DeviceAPI.body(fcm: "f2"))
            let answer46 = try await api.status([id])
            #expect(answer46 == pending)
        }
    }

    @Test func `neither tokens nor webhook secrets stay in the store or come into the log`() async throws {
        try await withDeviceAPI { api in
            let secret = "s3cr3t-of-the-app"
            _ = try await api.post(
                "/devices", DeviceAPI.body(fcm: "dead-\(secret)"),
                headers: [
                    .tracked, HTTPHeader("x-ms-callback-url", "http://192.0.2.1/\(secret)"),
                    HTTPHeader("x-ms-callback-url-headers", #"{"x":"\#(secret)"}"#),
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

extension PushRequest {
    fileprivate var isSilent: Bool {
        if case .silent = message { true } else { false }
    }
}
