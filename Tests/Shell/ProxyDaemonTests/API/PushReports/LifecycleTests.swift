import ProxyPolicy
import Addressing
import Bytes
import Foundation
import JSON
import LoopTesting
import Persistence
import ProxyCore
import PushDelivery
import PushSandbox
import Registration
import Settings
import Storage
import StoreTesting
import TestSupport
import Testing
import Timekeeping

@testable import HTTPServices
@testable import ProxyDaemon

/// A daemon with the 10darts payload, a phone, a caller and a gateway that accepts the pushes.
private struct Story {
    let daemon: RunningDaemon
    let outside: Outside

    static let key = "spd_" + String(repeating: "L", count: 43)
    static let token = "device-token-of-the-phone"

    /// Runs a test with a daemon, which has a store of its own by default. The function `changed` may change the
    /// settings of the daemon.
    static func with(
        _ folder: StoreFolder? = nil, _ changed: @escaping (inout DaemonSettings) -> Void = { _ in },
        _ body: (Story) async throws -> Void
    ) async throws {
        let folder = try folder ?? StoreFolder()
        try await withLoop { loop in
            let outside = Outside(loop)
            let url = try await outside.open()
            let secret = try #require(APIKeySecret(key))
            let apiKey = try #require(
                APIKey(name: "app", hash: secret.hash, scopes: [.lifecycle], createdAt: UnixTime(seconds: 0)))
            try folder.keep([.addKey(apiKey.stored)])
            let daemon = try await RunningDaemon.start(folder) { settings in
                settings.trusted = [TrustedPeer("127.0.0.1")].compactMap { $0 }
                settings.push.fcm.enabled = true
                settings.push.fcm.bodyFormat = .legacy
                settings.push.fcm.payload = .tenDarts
                settings.push.fcm.serverKey = Secret("server-key")
                settings.push.fcm.endpoint = url
                settings.call.ringTimeout = .seconds(1)
                changed(&settings)
            }
            let result: Result<Void, any Error>
            do {
                result = .success(try await body(Story(daemon: daemon, outside: outside)))
            } catch {
                result = .failure(error)
            }
            try await daemon.stop()
            withExtendedLifetime(folder) {}
            await outside.close()
            try result.get()
        }
    }

    func register(_ cseq: Int, user: String = "100", token: String = token) async throws {
        let local = await outside.local
        let contact = "<sip:\(user)@\(local);pn-provider=fcm;pn-param=p;pn-prid=\(token)>"
        await outside.send(
            SIPText.register(
                user: user, from: local, callID: "r\(user)", cseq: cseq, branch: "r\(user)\(cseq)", contact: contact),
            to: daemon.sip)
        _ = try await outside.message("SIP/2.0 200", of: "r\(user)")
    }

    /// Makes a call that nobody answers, and waits until it has ended.
    ///
    /// - Returns: the data of the call's push.
    func missedCall(_ number: Int, user: String = "100") async throws -> JSONValue {
        let count = await outside.pushes.count
        let local = await outside.local
        await outside.send(
            SIPText.invite(to: user, from: "103", at: local, callID: "call\(number)", branch: "i\(number)"),
            to: daemon.sip)
        let data = try await push(count)
        _ = try await outside.message("SIP/2.0 480", of: "call\(number)")
        return data
    }

    /// Waits for push number `index`, and returns its data. If no push comes, the time limit of the test ends the
    /// waiting.
    func push(_ index: Int) async throws -> JSONValue {
        while await outside.pushes.count <= index { await Task.yield() }
        let body = await outside.pushes[index].body
        return try #require(try JSONValue(Array(body.utf8))["data"])
    }

    /// Sends an API request with the header fields of the platform's SDK.
    ///
    /// - Returns: the raw answer.
    func ask(
        _ line: String, _ body: String? = nil, authorization: String? = "Token \(key)", more: String = ""
    ) async throws -> String {
        let length = body.map { "Content-Type: application/json\r\nContent-Length: \($0.utf8.count)\r\n" } ?? ""
        let key = authorization.map { "Authorization: \($0)\r\n" } ?? ""
        return try await daemon.answer(
            "\(line) HTTP/1.1\r\nHost: 10darts.com\r\n\(key)\(more)\(length)Connection: close\r\n\r\n\(body ?? "")")
    }

    func status(
        _ line: String, _ body: String? = nil, authorization: String? = "Token \(key)"
    ) async throws -> Int {
        Int(try await ask(line, body, authorization: authorization).dropFirst(9).prefix(3)) ?? 0
    }

    func json(_ target: String) async throws -> JSONValue {
        let answer = try await ask("GET \(target)", authorization: "Bearer \(Self.key)")
        #expect(answer.hasPrefix("HTTP/1.1 200 "))
        return try JSONValue(Array(answer.components(separatedBy: "\r\n\r\n").dropFirst().joined().utf8))
    }
}

extension JSONValue {
    fileprivate var id: String { self["id"]?.string ?? "" }
    fileprivate var badge: Int64? { self["badge"]?.integer }
    fileprivate var device: String { self["ctm"]?["device"]?.string ?? "" }
    fileprivate var body: String { #"{"device":"/api/v1/devices/\#(device)/"}"# }
}

extension RunningDaemonSuites {
    @Suite("The lifecycle of pushes in a whole daemon", .timeLimit(.minutes(10)))
    struct LifecycleTests {
        @Test func `each mark in each form`() async throws {
            try await Story.with { story in
                try await story.register(1)
                let push = try await story.missedCall(1)
                #expect(push["cfm"]?.integer == 1 && push["org"]?.string == "10d" && push.badge == 1)
                #expect(push.device.utf8.count == 32)
                let base = "/api/v1/pushes"
                for path in ["\(base)/\(push.id)/received", "\(base)/\(push.id)/follow", "\(base)/\(push.id)/read"]
                    + ["\(base)/all_read"]
                {
                    for method in ["PATCH", "PUT", "POST"] {
                        for end in ["/", ""] {
                            #expect(try await story.status("\(method) \(path)\(end)", push.body) == 200)
                        }
                    }
                    for method in ["GET", "DELETE", "HEAD", "OPTIONS"] {
                        for end in ["/", ""] {
                            let answer = try await story.ask("\(method) \(path)\(end)")
                            #expect(
                                answer.hasPrefix("HTTP/1.1 405 ") && answer.contains("Allow: PATCH, PUT, POST\r\n"),
                                "\(method) \(path)\(end)")
                        }
                    }
                    for device in [
                        "https://10darts.com/api/v1/devices/\(push.device)/", "/api/v1/devices/\(push.device)",
                        push.device,
                    ] {
                        #expect(try await story.status("PATCH \(path)/", #"{"device":"\#(device)"}"#) == 200)
                    }
                    for body in ["", "{}", "[]", #"{"device":7}"#, #"{"device":"/api/v1/persons/1/"}"#] {
                        #expect(try await story.status("PATCH \(path)/", body) == 400)
                    }
                    let other = String(push.device.reversed())
                    #expect(try await story.status("PATCH \(path)/", #"{"device":"\#(other)"}"#) == 404)
                    for authorization in ["Token", "AppToken", "Bearer", "token"] {
                        #expect(
                            try await story.status(
                                "PATCH \(path)/", push.body, authorization: "\(authorization) \(Story.key)") == 200)
                    }
                    #expect(try await story.status("PATCH \(path)/", push.body, authorization: nil) == 401)
                    #expect(
                        try await story.status(
                            "PATCH \(path)/", push.body, authorization: "Basic \(Story.key)") == 401)
                    #expect(
                        try await story.status(
                            "PATCH \(path)/", push.body, authorization: "Token \(RunningDaemon.readerKey)") == 403)
                }
                // The push counts once in the statistics, although its receipt was reported several times.
                let statistics = try await story.json("/v1/push-statistics?by=push")
                let row = try #require(statistics["statistics"]?.array?.first)
                #expect(
                    ["devices", "sent", "accepted", "failed", "received", "followed", "read"].map {
                        row[$0]?.integer
                    } == [1, 1, 1, 0, 1, 1, 1])
            }
        }

        @Test func `the sheet's request, byte for byte`() async throws {
            try await Story.with { story in
                try await story.register(1)
                let push = try await story.missedCall(1)
                let answer = try await story.ask("PATCH /api/v1/pushes/\(push.id)/received/", push.body)
                #expect(answer.hasPrefix("HTTP/1.1 200 "))
                #expect(answer.contains("Content-Length: 0\r\n") && answer.hasSuffix("\r\n\r\n"))
                let report = try await story.json("/v1/pushes/\(push.id)")
                #expect(report["push"]?.string == push.id && report["kind"]?.string == "call")
                let device = try #require(report["devices"]?.array?.first)
                #expect(device["device"]?.string == push.device)
                #expect(device["received"]?.bool == true && device["receivedAt"]?.integer != nil)
                #expect(device["followed"]?.bool == false && device["read"]?.bool == false)
                #expect(device["accepted"]?.bool == true && device["app"]?.string == "fcm")
                let day = try await story.ask(
                    "GET /v1/push-statistics?by=app", authorization: "Bearer \(Story.key)", more: "Accept: text/csv\r\n"
                )
                #expect(day.contains("Content-Type: text/csv"))
                #expect(
                    day.hasSuffix("app,devices,sent,accepted,failed,received,followed,read\r\nfcm,1,1,1,0,1,0,0\r\n"))
                // The API's answer contains neither the token nor the caller.
                let text = try await story.ask("GET /v1/pushes/\(push.id)", authorization: "Bearer \(Story.key)")
                // Times and ids can have the digits of the caller.
                #expect(!text.contains(Story.token) && !text.contains("103@") && !text.contains("\"103"))
            }
        }

        @Test func `a call that still rings takes marks`() async throws {
            try await Story.with(nil, { $0.call.ringTimeout = .seconds(20) }) { story in
                try await story.register(1)
                let local = await story.outside.local
                await story.outside.send(
                    SIPText.invite(to: "100", from: "103", at: local, callID: "call1", branch: "i1"),
                    to: story.daemon.sip)
                let push = try await story.push(0)
                #expect(try await story.status("POST /api/v1/pushes/\(push.id)/received/", push.body) == 200)
                let device = try #require(
                    try await story.json("/api/v1/pushes/\(push.id)/")["devices"]?.array?.first)
                #expect(device["received"]?.bool == true && device["followed"]?.bool == false)
            }
        }

        @Test func `badges per device, over a restart`() async throws {
            let folder = try StoreFolder()
            var pushes: [JSONValue] = []
            try await Story.with(folder) { story in
                try await story.register(1)
                try await story.register(1, user: "101", token: "another-device-token")
                for number in 1...3 { pushes.append(try await story.missedCall(number)) }
                #expect(pushes.map(\.badge) == [1, 2, 3])
                #expect(try await story.missedCall(4, user: "101").badge == 1)
                #expect(try await story.status("PATCH /api/v1/pushes/\(pushes[1].id)/read/", pushes[1].body) == 200)
                #expect(try await story.status("PATCH /api/v1/pushes/\(pushes[1].id)/read/", pushes[1].body) == 200)
                let push = try await story.missedCall(5)
                #expect(push.badge == 3)
                // The first id belongs to a push to another user's device; the other two ids belong to no push.
                for id in [try await story.push(3).id, UUID().uuidString, "x"] {
                    #expect(try await story.status("PATCH /api/v1/pushes/\(id)/read/", push.body) == 404)
                }
            }
            try await Story.with(folder) { story in
                let push = try await story.missedCall(6)
                #expect(push.badge == 4)
                #expect(push.device == pushes[0].device)
                #expect(try await story.status("PUT /api/v1/pushes/all_read/", push.body) == 200)
                #expect(try await story.missedCall(7).badge == 1)
                #expect(try await story.missedCall(8, user: "101").badge == 2)
            }
            try await Story.with(folder) { story in
                #expect(try await story.missedCall(9).badge == 2)
                let rows = try await story.json("/v1/push-statistics?by=push")["statistics"]?.array ?? []
                let first = rows.first { $0["push"]?.string == pushes[1].id }
                #expect(first?["read"]?.integer == 1)
                // The statistics have nine rows, or eight if the store has not written the row of the last push yet.
                #expect(rows.count == 8 || rows.count == 9)
            }
        }

        /// For the id of another user's push, the API answers 404 as for an id that does not exist, and never 403 (T7).
        @Test func `others' pushes and no pushes are answered alike`() async throws {
            try await Story.with { story in
                try await story.register(1)
                try await story.register(1, user: "101", token: "another-device-token")
                let own = try await story.missedCall(1)
                let other = try await story.missedCall(2, user: "101")
                // The store writes the push's record together with the report that the push arrived.
                #expect(try await story.status("PUT /api/v1/pushes/\(other.id)/received/", other.body) == 200)
                let unknown = UUID().uuidString.lowercased()
                var answers: Set<String> = []
                for (id, body) in [
                    (other.id, own.body), (unknown, own.body), ("x", own.body),
                    (own.id, #"{"device":"\#(String(own.device.reversed()))"}"#),
                ] {
                    for word in ["received", "follow", "read"] {
                        let answer = try await story.ask("PATCH /api/v1/pushes/\(id)/\(word)/", body)
                        #expect(answer.hasPrefix("HTTP/1.1 404 "))
                        answers.insert(
                            answer.split(separator: "\r\n").filter { !$0.hasPrefix("Date: ") }.joined(separator: "\n"))
                    }
                }
                #expect(answers.count == 1)
                // The store has none of the reports about another user's push.
                let device = try await story.json("/v1/pushes/\(other.id)")["devices"]?.array?.first
                #expect(device?["read"]?.bool == false && device?["followed"]?.bool == false)
            }
        }

        @Test func `missed calls that an operator has deleted do not count any more, once the store has the change`()
            async throws
        {
            let folder = try StoreFolder()
            try await Story.with(folder, { $0.admin.listen = [Endpoint(.loopbackV4, 0)] }) { story in
                try await story.register(1)
                _ = try await story.missedCall(1)
                #expect(try await story.missedCall(2).badge == 2)
                let path = "/v1/users/100@example.net/bucket"
                func calls() async throws -> Int? {
                    try JSONValue(Array(try await story.daemon.order("GET", path).body.utf8)).array?.count
                }
                #expect(try await calls() == 2)
                try folder.execute("ALTER TABLE bucket_entry RENAME TO away")
                #expect(try await story.daemon.order("DELETE", path).status == 503)
                #expect(try await calls() == 2)
                try folder.execute("ALTER TABLE away RENAME TO bucket_entry")
                #expect(try await story.daemon.order("DELETE", path).body == #"{"removed":2}"#)
                #expect(try await story.daemon.order("GET", path).body == "[]")
                #expect(try folder.number("SELECT count(*) FROM bucket_entry") == 0)
                #expect(try await story.missedCall(3).badge == 1)
            }
            // After a restart, the removed calls still count as read.
            try await Story.with(folder) { story in
                let push = try await story.missedCall(4)
                #expect(push.badge == 2)
            }
        }

        @Test func `while the store cannot be written a mark is refused, and the app tries again`() async throws {
            let folder = try StoreFolder()
            try await Story.with(folder) { story in
                try await story.register(1)
                let push = try await story.missedCall(1)
                #expect(try await story.status("PATCH /api/v1/pushes/\(push.id)/received/", push.body) == 200)
                try folder.execute("ALTER TABLE push_record RENAME TO away")
                for path in ["\(push.id)/read", "all_read"] {
                    let answer = try await story.ask("PATCH /api/v1/pushes/\(path)/", push.body)
                    #expect(answer.hasPrefix("HTTP/1.1 503 ") && answer.contains("Retry-After: 5\r\n"))
                }
                try folder.execute("ALTER TABLE away RENAME TO push_record")
                #expect(try await story.status("PATCH /api/v1/pushes/\(push.id)/read/", push.body) == 200)
            }
        }

        @Test func `pushes are not made here`() async throws {
            try await Story.with { story in
                let id = "00000000-0000-4000-8000-000000000000"
                for path in ["/api/v1/pushes/", "/api/v1/pushes", "/api/v1/pushes/\(id)/", "/api/v1/pushes/\(id)"] {
                    for method in ["POST", "PUT", "PATCH", "DELETE"] {
                        let answer = try await story.ask("\(method) \(path)", "{}")
                        #expect(answer.hasPrefix("HTTP/1.1 405 ") && answer.contains("Allow: GET\r\n"))
                    }
                }
                let answer = try await story.ask("GET /api/v1/pushes/all_read/")
                #expect(answer.hasPrefix("HTTP/1.1 405 ") && answer.contains("Allow: PATCH, PUT, POST\r\n"))
                #expect(try await story.status("GET /api/v1/pushes/\(id)/") == 404)
                for name in [id, "x"] {
                    let status = try await story.status(
                        "GET /v1/pushes/\(name)", authorization: "Bearer \(Story.key)")
                    #expect(status == 404)
                }
                // Routes that are not of the 10darts platform refuse the authorization schemes `Token` and `AppToken`.
                #expect(try await story.status("GET /v1/pushes/\(id)", authorization: "Token \(Story.key)") == 401)
            }
        }

        @Test func `a device asks for its code`() async throws {
            try await Story.with { story in
                try await story.register(1)
                let push = try await story.missedCall(1)
                for (token, platform, status) in [
                    (Story.token, "android", 201), (Story.token, "ios", 404), (Story.token, "symbian", 400),
                    ("another-device-token", "android", 404), ("x", "android", 404), ("", "android", 400),
                    (Story.token, "messenger", 404),
                ] {
                    let answer = try await story.ask(
                        "POST /api/v1/devices/", #"{"token":"\#(token)","platform":"\#(platform)","model":"x"}"#)
                    #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(token) \(platform)")
                    #expect(answer.contains("\"\(push.device)\"") == (status == 201))
                }
                #expect(try await story.status("POST /api/v1/devices/\(push.device)/access/") == 200)
                #expect(try await story.status("POST /api/v1/devices/\(push.id)/access/") == 404)
            }
        }

        @Test(arguments: [
            "by=week", "format=xml", "from=yesterday", "from=2026-02-30", "to=2026-13-01", "from=-1", "limit=0",
            "limit=10001", "after=x", "from=1969-12-31", "to=20261121T00", "from=99999-01-01",
            "from=2026-%2B1-01", "to=2026-01-1", "from=", "by=", "limit=%2B",
        ])
        func `invalid queries`(query: String) async throws {
            try await Story.with { story in
                let status = try await story.status(
                    "GET /v1/push-statistics?\(query)", authorization: "Bearer \(Story.key)")
                #expect(status == 400)
            }
        }

        @Test func `from and to, as days and as seconds`() async throws {
            try await Story.with { story in
                try await story.register(1)
                let push = try await story.missedCall(1)
                // The store writes the push's record together with the report that the push arrived.
                #expect(try await story.status("PATCH /api/v1/pushes/\(push.id)/received/", push.body) == 200)
                let now = Int64(Date().timeIntervalSince1970)
                let today = Date().formatted(.iso8601.year().month().day())
                for (query, count) in [
                    ("from=\(today)", 1), ("to=\(today)", 1), ("from=\(today)&to=\(today)", 1), ("to=2026-01-01", 0),
                    ("from=\(now - 60)", 1), ("to=\(now - 60)", 0), ("from=\(now + 60)", 0), ("app=fcm", 1),
                    ("app=apns", 0),
                ] {
                    let answer = try await story.ask(
                        "GET /v1/push-statistics?by=push&\(query)", authorization: "Bearer \(Story.key)")
                    #expect(answer.components(separatedBy: "\"devices\":").count - 1 == count, "\(query)")
                }
            }
        }

        @Test func `without a timeline there is no lifecycle, but there are badges`() async throws {
            try await Story.with(nil, { $0.push.timeline.maximumRecords = 0 }) { story in
                try await story.register(1)
                let push = try await story.missedCall(1)
                #expect(push.badge == 1)
                #expect(try await story.status("PATCH /api/v1/pushes/\(push.id)/read/", push.body) == 404)
                #expect(try await story.status("GET /v1/push-statistics") == 404)
                #expect(try await story.missedCall(2).badge == 2)
            }
        }
    }
}
