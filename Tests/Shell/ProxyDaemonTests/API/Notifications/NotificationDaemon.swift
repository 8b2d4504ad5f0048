import Crypto
import Foundation
import HTTPServices
import JSON
import LoopTesting
import ProviderTesting
import PushDelivery
import PushSandbox
import Testing

@testable import ProxyDaemon

/// A daemon that sends notifications, with one stand-in for all push providers.
struct NotificationDaemon {
    let daemon: RunningDaemon
    let providers: Providers

    /// A token of 32 bytes, in base64 and in the form of Apple's requests.
    static let voip = ("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", String(repeating: "01", count: 32))
    static let remote = ("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=", String(repeating: "02", count: 32))
    /// `google-token` in base64.
    static let google = ("Z29vZ2xlLXRva2Vu", "google-token")

    static func with(
        _ form: ReportedTokens.Form, plans: [String: String] = [:],
        _ change: (inout DaemonSettings) -> Void = { _ in }, _ body: (NotificationDaemon) async throws -> Void
    ) async throws {
        try await withFolder { folder in
            try await withLoop { loop in
                let certificate = try SelfSignedCertificate(hosts: ["127.0.0.1"])
                try Data(certificate.certificate).write(to: URL(fileURLWithPath: folder.path + "/ca.pem"))
                let providers = Providers(loop)
                let url = try await providers.listen(certificate, plans: plans)
                var push = try folder.settings(url)
                push.apns.caFile = folder.path + "/ca.pem"
                push.apns.payload = .tenDarts
                push.fcm.caFile = folder.path + "/ca.pem"
                push.fcm.payload = .tenDarts
                push.acrobits.enabled = true
                push.acrobits.endpoint = url
                push.acrobits.caFile = folder.path + "/ca.pem"
                let result: Result<Void, any Error>
                do {
                    try await RunningDaemon.with { settings in
                        settings.push = push
                        settings.api.notifications.enabled = true
                        settings.api.pushTokens.provider = form
                        change(&settings)
                    } _: { daemon in
                        try await body(NotificationDaemon(daemon: daemon, providers: providers))
                    }
                    result = .success(())
                } catch {
                    result = .failure(error)
                }
                await providers.close()
                try result.get()
            }
        }
    }

    // MARK: Steps

    func report(_ members: String, user: String = "100") async throws {
        let status = try await daemon.post(
            "/v1/push-tokens", #"{"username":"\#(user)",\#(members)}"#, type: "application/json",
            key: daemon.key.text)
        try #require(status == 200)
    }

    /// Reports an iPhone with a token for calls and a token for messages.
    func reportPhone() async throws {
        try await report(
            #""selector":"S:1","token_calls":"\#(Self.voip.0)","appid_calls":"com.example.phone.voip","#
                + #""token_msgs":"\#(Self.remote.0)","appid_msgs":"com.example.phone""#)
    }

    func send(
        _ body: String, to path: String = "/api/v1/notifications/", type: String? = "application/json",
        key: String? = RunningDaemon.senderKey, scheme: String = "Bearer"
    ) async throws -> (status: Int, body: JSONValue?) {
        let fields =
            (key.map { "Authorization: \(scheme) \($0)\r\n" } ?? "") + (type.map { "Content-Type: \($0)\r\n" } ?? "")
        return Self.parts(
            try await daemon.answer(
                "POST \(path) HTTP/1.1\r\nHost: a\r\n\(fields)Content-Length: \(body.utf8.count)\r\n"
                    + "Connection: close\r\n\r\n\(body)"))
    }

    func get(
        _ path: String, key: String = RunningDaemon.senderKey
    ) async throws -> (status: Int, body: JSONValue?) {
        Self.parts(
            try await daemon.answer(
                "GET \(path) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(key)\r\nConnection: close\r\n\r\n"))
    }

    private static func parts(_ answer: String) -> (status: Int, body: JSONValue?) {
        let start = answer.utf8.firstRange(of: "\r\n\r\n".utf8)?.upperBound ?? answer.endIndex
        return (Int(answer.dropFirst(9).prefix(3)) ?? 0, try? JSONValue(Array(answer[start...].utf8)))
    }

    /// Sends a request in the format of Acrobits' push server.
    ///
    /// - Returns: the code in the answer.
    func mediate(_ body: String, isForm: Bool = false) async throws -> Int64? {
        let answer = try await send(
            body, to: isForm ? "/pnm2" : "/pnm2/send",
            type: isForm ? "application/x-www-form-urlencoded" : "application/json; charset=utf-8")
        #expect(answer.status == 200)
        #expect(answer.body?["response"]?.string != nil)
        if isForm { #expect(answer.body?["status"] == answer.body?["code"]) }
        return answer.body?["code"]?.integer
    }

    /// Waits until the provider has received `count` pushes. If no push comes, the time limit of the test ends the
    /// waiting.
    func pushes(_ count: Int) async throws -> [PushRecord] {
        while true {
            let records = await providers.records
            if records.count >= count { return records }
            await Task.yield()
            try Task.checkCancellation()
        }
    }
}
