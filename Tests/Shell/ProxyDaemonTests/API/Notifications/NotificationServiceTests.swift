import JSON
import LoopTesting
import ProviderTesting
import ProxyDaemon
import PushDelivery
import PushSandbox
import Telemetry
import TestSupport
import Testing

@testable import HTTPServices

extension RunningDaemonSuites {
    @Suite("Notifications", .timeLimit(.minutes(10)))
    struct NotificationServiceTests {
        private let paths = ["/api/v1/notifications", "/api/v1/notifications/", "/pnm2/send", "/pnm2"]

        @Test func `are not served unless they are switched on`() async throws {
            try await NotificationDaemon.with(.direct, { $0.api.notifications.enabled = false }) { bench in
                for path in paths {
                    let status = try await bench.send("{}", to: path).status
                    #expect(status == 404)
                }
            }
        }

        @Test func `want a key with the right scope, and leave a line for each order`() async throws {
            try await NotificationDaemon.with(.direct) { bench in
                for path in paths {
                    #expect(try await bench.send("{}", to: path, key: nil).status == 401)
                    #expect(try await bench.send("{}", to: path, key: "spd_unknown").status == 401)
                    #expect(try await bench.send("{}", to: path, key: RunningDaemon.readerKey).status == 403)
                }
                try await bench.daemon.expect(405, get: "/pnm2/send", key: RunningDaemon.senderKey)
                _ = try await bench.send(#"{"users":["planted-user"],"message":"planted-text"}"#)
                let lines = bench.daemon.log.lines
                #expect(
                    lines.contains {
                        $0.contains("an API request made a change") && $0.contains("api-key=sender")
                            && $0.contains("status=202")
                    })
                #expect(!lines.contains { $0.contains("planted-text") })
            }
        }

        @Test func `a message reaches the user's phones, and not by the token for calls`() async throws {
            try await NotificationDaemon.with(.direct) { bench in
                try await bench.reportPhone()
                try await bench.report(
                    #""selector":"S:2","token_msgs":"\#(NotificationDaemon.google.0)","appid_msgs":"my-project""#)
                let answer = try await bench.send(
                    #"{"users":["100","sip:100@example.net","nobody@example.org","100@elsewhere"],"title":"Ti","message":"Te","#
                        + #""is_confirmation_needed":true,"destination_type":"a","destination_code":"b","#
                        + #""image":"https://x/y","ctm":{"k":[1]},"ttl":60,"later":{"x":1}}"#)
                #expect(answer.status == 202)
                let code = try #require(answer.body?["code"]?.string)
                #expect(answer.body?["sent_to"]?.integer == 2)
                #expect(answer.body?["skipped"]?.integer == 0)
                #expect(answer.body?["unknown"]?.array == [.string("100@elsewhere"), .string("nobody@example.org")])
                let pushes = try await bench.pushes(2)
                let apple = try #require(pushes.first { $0.service == "apns" })
                #expect(apple.token == NotificationDaemon.remote.1 && apple.isAccepted)
                #expect(apple.headers["apns-push-type"] == "alert" && apple.headers["apns-id"] == code)
                // The test removes the device's code, because it differs in each run.
                #expect(
                    apple.body.replacing(/,"device":"[A-Za-z0-9_-]{32}"/, with: "")
                        == #"{"aps":{"alert":{"title":"Ti","body":"Te"},"sound":"default","badge":1},"id":"\#(code)","#
                        + #""title":"Ti","dst":"a","dsc":"b","img":"https://x/y","cfm":1,"sil":0,"org":"10d","ctm":{"k":[1]}}"#
                )
                let google = try JSONValue(Array(try #require(pushes.first { $0.service == "fcm" }).body.utf8))
                #expect(google["message"]?["token"]?.string == NotificationDaemon.google.1)
                #expect(google["message"]?["android"]?["ttl"]?.string == "60s")
                #expect(google["message"]?["data"]?["id"]?.string == code)
            }
        }

        @Test func `its result is found by its code, device by device`() async throws {
            try await NotificationDaemon.with(.direct) { bench in
                try await bench.reportPhone()
                try await bench.report(
                    #""selector":"S:2","token_calls":"AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=","appid_calls":"com.example.phone.voip""#
                )
                try await bench.report(
                    #""selector":"S:3","token_msgs":"\#(NotificationDaemon.google.0)","appid_msgs":"my-project""#)
                let sent = try await bench.send(#"{"users":["100"],"message":"x"}"#)
                let code = try #require(sent.body?["code"]?.string)
                // The imitated push provider receives two pushes. The third device gets no push, because it has no
                // token for messages.
                var metrics: JSONValue?
                while metrics?["accepted"]?.integer != 2 {
                    let answer = try await bench.get("/api/v1/notifications/\(code)/metrics/")
                    try #require(answer.status == 200)
                    metrics = answer.body
                    try Task.checkCancellation()
                }
                #expect(metrics?["sent_to"]?.integer == 2)
                #expect(metrics?["skipped"]?.integer == 1)
                #expect(metrics?["received_by"]?.integer == 0)
                let devices = try #require(metrics?["devices"]?.array)
                let device = try #require(devices.first?["device"]?.string)
                // The app reports that the push was received and followed.
                let path = "/api/v1/pushes/\(code)/"
                for mark in ["received", "follow"] {
                    let answer = try await bench.send(
                        #"{"device":"/api/v1/devices/\#(device)/"}"#, to: path + mark + "/")
                    #expect(answer.status == 200)
                }
                let marked = try await bench.get("/api/v1/notifications/\(code.uppercased())/metrics").body
                #expect(marked?["received_by"]?.integer == 1)
                #expect(marked?["followed_by"]?.integer == 1)

                // A notification may name only a device's id as its target.
                let one = try await bench.send(
                    #"{"devices":["/api/v1/devices/\#(device)/","https://10darts.com/api/v1/devices/nobodys/"],"message":"y"}"#
                )
                #expect(one.body?["sent_to"]?.integer == 1 && one.body?["skipped"]?.integer == 0)
                #expect(one.body?["unknown"]?.array == [.string("nobodys")])
            }
        }

        @Test func `pushes that are no notifications are not found`() async throws {
            try await NotificationDaemon.with(.direct) { bench in
                for code in ["x", "12345678-9abc-4ef0-bedc-ba9876543210"] {
                    #expect(try await bench.get("/api/v1/notifications/\(code)/metrics/").status == 404)
                }
                let unknown = try await bench.get("/api/v1/notifications/x/metrics/", key: RunningDaemon.readerKey)
                #expect(unknown.status == 403)
            }
        }

        @Test func `keys may be shown as the platforms do`() async throws {
            try await NotificationDaemon.with(.direct) { bench in
                for scheme in ["Token", "AppToken", "bearer"] {
                    let answer = try await bench.send(#"{"users":["x"],"message":"y"}"#, scheme: scheme)
                    #expect(answer.status == 202)
                }
                #expect(try await bench.send("{}", scheme: "Basic").status == 401)
            }
        }

        @Test func `a silent push is a background push`() async throws {
            try await NotificationDaemon.with(.direct) { bench in
                try await bench.reportPhone()
                let answer = try await bench.send(#"{"users":["100"],"is_silent":1}"#)
                #expect(answer.body?["sent_to"]?.integer == 1)
                let push = try #require(try await bench.pushes(1).first)
                #expect(push.headers["apns-push-type"] == "background" && push.headers["apns-priority"] == "5")
                #expect(push.isAccepted)
            }
        }

        @Test func `a phone that gave a token for calls alone is skipped`() async throws {
            try await NotificationDaemon.with(.direct) { bench in
                try await bench.report(
                    #""selector":"S","token_calls":"\#(NotificationDaemon.voip.0)","appid_calls":"com.example.phone.voip""#
                )
                let answer = try await bench.send(#"{"users":["100"],"message":"x"}"#)
                #expect(answer.status == 202)
                #expect(answer.body?["sent_to"]?.integer == 0 && answer.body?["skipped"]?.integer == 1)
            }
        }

        @Test func `the mediator gets a text, and no silence`() async throws {
            try await NotificationDaemon.with(.acrobits) { bench in
                try await bench.report(#""selector":"S:1","token_msgs":"TXNn","appid_msgs":"app""#)
                let silent = try await bench.send(#"{"users":["100"],"is_silent":true}"#)
                #expect(silent.body?["skipped"]?.integer == 1)
                let text = try await bench.send(#"{"users":["100"],"title":"Ti","message":"Te"}"#)
                #expect(text.body?["sent_to"]?.integer == 1)
                let push = try #require(try await bench.pushes(1).first)
                #expect(push.type == "NotifyGenericTextMessage" && push.token == "TXNn" && push.isAccepted)
                #expect(push.body.contains(#""Message":"Ti: Te""#))
            }
        }

        @Test func `a token that turns out to be dead takes its device along`() async throws {
            let plan = #"{"status":410,"reason":"Unregistered"}"#
            try await NotificationDaemon.with(.direct, plans: [NotificationDaemon.remote.1: plan]) { bench in
                try await bench.reportPhone()
                #expect(try await bench.send(#"{"users":["100"],"message":"x"}"#).body?["sent_to"]?.integer == 1)
                while await bench.daemon.bindingCount() > 0 {
                    await Task.yield()
                    try Task.checkCancellation()
                }
                let answer = try await bench.send(#"{"users":["100"],"message":"x"}"#)
                #expect(answer.body?["unknown"]?.array == [.string("100")])
            }
        }

        @Test func `one device gets so many a minute`() async throws {
            try await NotificationDaemon.with(.direct, { $0.api.notifications.perDevice = 2 }) { bench in
                try await bench.reportPhone()
                var skipped: [Int64?] = []
                for _ in 1...3 {
                    skipped.append(try await bench.send(#"{"users":["100"],"message":"x"}"#).body?["skipped"]?.integer)
                }
                #expect(skipped == [0, 0, 1])
            }
        }

        // MARK: Bodies

        private static func users(_ count: Int) -> String {
            #"{"message":"x","users":["# + (0..<count).map { "\"u\($0)\"" }.joined(separator: ",") + "]}"
        }

        private static func long(_ name: String, _ length: Int) -> String {
            more(#""\#(name)":"\#(String(repeating: "x", count: length))""#)
        }

        /// Makes a valid request with additional members.
        private static func more(_ members: String) -> String { #"{"users":["100"],"message":"x",\#(members)}"# }

        private static let bodies: [(String, Int)] = [
            ("", 400), ("[]", 400), ("{}", 400), ("nonsense", 400), ("\"x\"", 400), ("{\"users\":[\"100\"]", 400),
            (#"{"users":["100"]}"#, 400), (#"{"users":[],"message":"x"}"#, 400), (#"{"message":"x"}"#, 400),
            (#"{"users":"100","message":"x"}"#, 400), (#"{"users":[100],"message":"x"}"#, 400),
            (#"{"users":[""],"message":"x"}"#, 400), (#"{"users":[null],"message":"x"}"#, 400),
            (#"{"users":["100"],"message":1}"#, 400), (#"{"users":["100"],"message":["x"]}"#, 400),
            (more(#""is_silent":"yes""#), 400), (more(#""is_silent":2"#), 400), (more(#""use_in_badge":1.0"#), 400),
            (more(#""ttl":-1"#), 400), (more(#""ttl":"60""#), 400), (more(#""ttl":1e3"#), 400),
            (more(#""ttl":99999999999999999999"#), 400), (more(#""custom":[1]"#), 400),
            (more(#""custom":"{}""#), 400), (more(#""custom":{},"ctm":{}"#), 400),
            (more(#""image":"file:///etc/passwd""#), 400), (more(#""image":"https://a b""#), 400),
            (more(#""message":"y""#), 400),
            (
                more(
                    #""custom":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{}}}}}}}}}}}}}}}}"#
                ), 400
            ),
            (users(100), 202), (users(101), 400), (#"{"devices":[],"message":"x"}"#, 400),
            (#"{"devices":[7],"message":"x"}"#, 400), (#"{"devices":["/api/v1/pushes/x/"],"message":"x"}"#, 400),
            (#"{"devices":"x","users":["100"],"message":"x"}"#, 400),
            (#"{"devices":["/api/v1/devices/nobodys/"],"message":"x"}"#, 202), (long("title", 1024), 202),
            (long("title", 1025), 400), (long("destination_type", 256), 202), (long("destination_type", 257), 400),
            (long("destination_code", 1024), 202), (long("destination_code", 1025), 400), (long("image", 2048), 400),
            (more(#""image":"https://\#(String(repeating: "x", count: 2040))""#), 202),
            (more(#""image":"https://\#(String(repeating: "x", count: 2041))""#), 400),
            (more(#""ttl":2419200"#), 202), (more(#""ttl":2419201"#), 400), (more(#""ttl":0"#), 202),
            (more(#""title":null,"custom":null,"is_silent":null"#), 202),
            (#"{"users":["\#(String(repeating: "u", count: 512))"],"message":"x"}"#, 202),
            (#"{"users":["\#(String(repeating: "u", count: 513))"],"message":"x"}"#, 400),
            (#"{"users":["100"],"is_silent":true}"#, 202),
            (more(#""custom":{"a":"\#(String(repeating: "x", count: 4088))"}"#), 422),
            (more(#""custom":{"a":"\#(String(repeating: "x", count: 4089))"}"#), 413),
            (long("junk", (16 << 10) - 41), 202), (long("junk", (16 << 10) - 40), 413),
        ]

        @Test func `bad bodies are refused, and the others are accepted`() async throws {
            try await NotificationDaemon.with(.direct, { $0.api.notifications.perDevice = 0 }) { bench in
                try await bench.reportPhone()
                for (body, status) in Self.bodies {
                    let answer = try await bench.send(body)
                    #expect(answer.status == status, "\(body.prefix(120))")
                }
            }
        }

        @Test func `a notification that does not fit into one phone's push goes to no phone`() async throws {
            try await NotificationDaemon.with(.direct) { bench in
                try await bench.reportPhone()
                let custom = #"{"a":"\#(String(repeating: "x", count: 4000))"}"#
                let answer = try await bench.send(#"{"users":["100"],"message":"x","custom":\#(custom)}"#)
                #expect(answer.status == 422)
                #expect(answer.body?["detail"]?.string?.hasPrefix("apns: a payload of ") == true)
                #expect(await bench.providers.records.isEmpty)
            }
        }
    }

    @Suite("Messages in the mediator's form", .timeLimit(.minutes(10)))
    struct MediatorRoutesTests {
        private func message(
            _ verb: String = "NotifyTextMessage", app: String = "app", token: String = "TXNn/+8=",
            selector: String? = "S:1", more: String = #","Message":"hi""#
        ) -> String {
            let selector = selector.map { #","Selector":"\#($0)""# } ?? ""
            return #"{"verb":"\#(verb)","AppId":"\#(app)","DeviceToken":"\#(token)"\#(selector)\#(more)}"#
        }

        private func report(_ bench: NotificationDaemon) async throws {
            try await bench.report(
                #""selector":"S:1","token_calls":"Q2Fs","appid_calls":"app.voip","token_msgs":"TXNn/+8=","appid_msgs":"app""#
            )
        }

        @Test func `a known token gets its message`() async throws {
            try await NotificationDaemon.with(.acrobits) { bench in
                try await report(bench)
                #expect(
                    try await bench.mediate(
                        message(
                            more:
                                #","Message":"hi","Badge":3,"Sound":"default","UserName":"103","UserDisplayName":"Anna","#
                                + #""ContentType":"text/plain","Id":"i1","ThreadId":"t1","GenerateAckWhenX":true"#))
                        == 200)
                let push = try #require(try await bench.pushes(1).first)
                #expect(
                    push.body
                        == #"{"verb":"NotifyTextMessage","AppId":"app","DeviceToken":"TXNn/+8=","Selector":"S:1","#
                        + #""Message":"hi","Badge":3,"Sound":"default","UserName":"103","UserDisplayName":"Anna","#
                        + #""ContentType":"text/plain","Id":"i1","ThreadId":"t1"}"#)
                #expect(push.isAccepted)
                // The test sends two requests that name no account: the daemon finds the device once, and remembers it.
                for _ in 1...2 {
                    #expect(try await bench.mediate(message("NotifyGenericTextMessage", selector: nil)) == 200)
                }
                let form = "verb=NotifyTextMessage&AppId=app&DeviceToken=TXNn/%2B8%3D&Selector=S%3A1&Message=a+b"
                #expect(try await bench.mediate(form, isForm: true) == 200)
                let last = try #require(try await bench.pushes(4).last)
                #expect(last.body.contains(#""Message":"a b""#))
            }
        }

        @Test func `errors have the codes of the specification`() async throws {
            try await NotificationDaemon.with(.acrobits) { bench in
                try await report(bench)
                let cases: [(String, Int64)] = [
                    (message(token: "VW5r"), 404), (message(selector: "S:2"), 404),
                    (message(app: "other"), 400), (message(app: "app.voip", token: "Q2Fs"), 400),
                    (message("NotifyIncomingCall"), 400), (message("NotifyIncomingCallMissed"), 400),
                    (message("NotifyIncomingCallAnsweredElsewhere"), 400), (message("Explode"), 400),
                    (message(selector: nil), 400), (message("NotifyGenericTextMessage", more: ""), 400),
                    (#"{"AppId":"app","DeviceToken":"TXNn/+8="}"#, 400), (#"{"verb":"NotifyTextMessage"}"#, 400),
                    ("{}", 400), (message(more: #","Badge":"x""#), 400), (message(more: #","Badge":-1"#), 400),
                    (message(more: #","Badge":100000"#), 400),
                    (message(more: #","Message":1"#), 400), (message(more: #","Message":{}"#), 400),
                    (message(more: #","Sound":"\#(String(repeating: "x", count: 129))""#), 400),
                    (message(more: #","Id":"\#(String(repeating: "x", count: 257))""#), 400),
                    (message(more: #","Message":"\#(String(repeating: "x", count: 8193))""#), 400),
                    (message(token: String(repeating: "A", count: 2001)), 400),
                    (message(token: String(repeating: "A", count: 2000)), 404),
                ]
                for (body, code) in cases {
                    #expect(try await bench.mediate(body) == code, "\(body.prefix(120))")
                }
                #expect(await bench.providers.records.isEmpty)
            }
        }

        @Test func `requests of another kind get an HTTP error status`() async throws {
            try await NotificationDaemon.with(.acrobits) { bench in
                let json = "application/json"
                let form = "application/x-www-form-urlencoded"
                let cases: [(String, String?, String)] = [
                    ("/pnm2/send", json, "no JSON"), ("/pnm2/send", json, "[]"), ("/pnm2/send", json, ""),
                    ("/pnm2/send", json, message(more: #","Message":"a","Message":"b""#)),
                    ("/pnm2/send", "text/plain", message()), ("/pnm2/send", nil, message()),
                    ("/pnm2/send", form, "verb=NotifyTextMessage"), ("/pnm2", json, message()),
                    ("/pnm2", form, "verb=NotifyTextMessage&AppId=a"), ("/pnm2", form, ""),
                    ("/pnm2/send", json, "{\"x\":\"" + String(repeating: "x", count: 16 << 10) + "\"}"),
                ]
                for (path, type, body) in cases {
                    let answer = try await bench.send(body, to: path, type: type)
                    #expect(answer.status == 400, "\(path) \(body.prefix(60))")
                    #expect(answer.body?["code"]?.integer == 400)
                }
            }
        }

        @Test func `two accounts in one app are distinguished by their selectors`() async throws {
            try await NotificationDaemon.with(.acrobits) { bench in
                try await report(bench)
                try await bench.report(#""selector":"S:2","token_msgs":"TXNn/+8=","appid_msgs":"app""#, user: "200")
                #expect(try await bench.mediate(message(selector: "S:2")) == 200)
                #expect(try await bench.mediate(message(selector: "S:1")) == 200)
                let selectors = try await bench.pushes(2).map { try JSONValue(Array($0.body.utf8))["Selector"]?.string }
                #expect(selectors == ["S:2", "S:1"])
            }
        }

        @Test func `a device with direct pushes is found by the decoded token`() async throws {
            try await NotificationDaemon.with(.direct) { bench in
                try await bench.reportPhone()
                let message = self.message(
                    app: "com.example.phone", token: NotificationDaemon.remote.0,
                    more: #","Message":"hi","UserDisplayName":"Anna""#)
                #expect(try await bench.mediate(message) == 200)
                let push = try #require(try await bench.pushes(1).first)
                #expect(push.service == "apns" && push.token == NotificationDaemon.remote.1)
                let alert = try JSONValue(Array(push.body.utf8))["aps"]?["alert"]
                #expect(alert?["title"]?.string == "Anna" && alert?["body"]?.string == "hi")
                let calls = self.message(app: "com.example.phone.voip", token: NotificationDaemon.voip.0)
                #expect(try await bench.mediate(calls) == 400)
            }
        }

        @Test func `a device that is gone is not found, though it was remembered`() async throws {
            try await NotificationDaemon.with(.acrobits) { bench in
                try await report(bench)
                #expect(try await bench.mediate(message()) == 200)
                try await bench.daemon.expect(
                    200, post: "/v1/account-removals", "username=100&selector=S:1", key: bench.daemon.key.text)
                #expect(try await bench.mediate(message()) == 404)
            }
        }
    }
}
