import Addressing
import Crypto
import Foundation
import HTTPServer
import HTTPServices
import JSON
import LoopTesting
import PushDelivery
import Registration
import TestSupport
import Testing

@testable import ProxyDaemon

extension RunningDaemonSuites {
    /// Tests device registration in a complete daemon that also has devices registered by SIP.
    @Suite("Device registration beside SIP", .timeLimit(.minutes(10)))
    struct OneDirectoryTests {
        private static let apple = String(repeating: "0a", count: 32)
        private static let deadApple = String(repeating: "0b", count: 32)

        private func with(
            plans: [String: String] = [:], _ change: (inout DaemonSettings) -> Void = { _ in },
            _ body: (RunningDaemon) async throws -> Void
        ) async throws {
            try await NotificationDaemon.with(.direct, plans: plans) { settings in
                RunningDaemon.forHostileInput(&settings)
                settings.api.mobileApps["shop"]?.appleParam = "DEF123GHIJ.com.example.phone"
                change(&settings)
            } _: {
                try await body($0.daemon)
            }
        }

        private func post(_ daemon: RunningDaemon, _ path: String, _ members: String) async throws -> JSONValue? {
            let body = #"{"MobileAppId":"\#(RunningDaemon.app)","ApiToken":"\#(RunningDaemon.apiToken)",\#(members)}"#
            let answer = try await daemon.answer(
                RunningDaemon.post(
                    RunningDaemon.registration + path, Array(body.utf8), ["x-ms-track-registration: true"]))
            #expect([[200], [202]].contains(RunningDaemon.statuses(answer)))
            let start = answer.utf8.firstRange(of: "\r\n\r\n".utf8)?.upperBound ?? answer.endIndex
            return try? JSONValue(Array(answer[start...].utf8))
        }

        /// Registers a token over the API, and waits for the outcome. The suite's time limit ends the waiting.
        ///
        /// - Returns: `Success`, or the reason of the failure.
        private func register(_ daemon: RunningDaemon, _ token: String) async throws -> String? {
            let id = try #require(
                try await post(daemon, "", #""UserId":"100",\#(token)"#)?["RegistrationRequestId"]?.string)
            while true {
                let outcome = try await post(daemon, "/status", #""RegistrationRequestIds":["\#(id)"]"#)?.array?.first
                if outcome?["Status"] != "Pending" {
                    return outcome?["FailureReason"]?.string ?? outcome?["Status"]?.string
                }
                try Task.checkCancellation()
                await Task.yield()
            }
        }

        /// Removes devices by a clean-up, and waits until they are gone.
        private func cleanUp(_ daemon: RunningDaemon, _ token: String) async throws {
            _ = try await post(daemon, "/cleanup", #""UserId":"100","DeviceToken":"\#(token)""#)
            while await !daemon.devices("100").isEmpty {
                try Task.checkCancellation()
                await Task.yield()
            }
        }

        /// Sends a REGISTER with push parameters and waits for its 200.
        private func register(_ daemon: RunningDaemon, bySIPWith parameters: String) async throws {
            try await withLoop { loop in
                let outside = Outside(loop)
                _ = try await outside.open()
                let local = await outside.local
                await outside.send(
                    SIPText.register(
                        user: "100", from: local, callID: "r1", cseq: 1, branch: "r1",
                        contact: "<sip:100@\(local);\(parameters)>"), to: daemon.sip)
                _ = try await outside.message("SIP/2.0 200", of: "r1")
                await outside.close()
            }
        }

        // MARK: One device, registered by SIP or HTTP

        @Test func `a device that has registered by SIP is no other one, and the app may clean it up`() async throws {
            try await with { daemon async throws in
                try await register(daemon, bySIPWith: "pn-provider=fcm;pn-param=my-project;pn-prid=t1")
                #expect(try await register(daemon, #""FcmDeviceToken":"t1""#) == "Success")
                #expect(await daemon.bindingCount() == 1)
                #expect(try await register(daemon, #""FcmDeviceToken":"t1""#) == "DuplicateExists")
                try await cleanUp(daemon, "t1")
                #expect(await daemon.bindingCount() == 0)
            }
        }

        @Test func `a device that an app has reported is no other one`() async throws {
            try await with { daemon async throws in
                try await daemon.expect(
                    200, post: "/v1/push-tokens",
                    #"{"username":"100","selector":"S:1","token_msgs":"Z29vZ2xlLXRva2Vu","appid_msgs":"my-project"}"#,
                    type: "application/json", key: daemon.key.text)
                #expect(try await register(daemon, #""FcmDeviceToken":"google-token""#) == "Success")
                await daemon.expect(["fcm my-project google-token"], of: "100")
                #expect(try await register(daemon, #""FcmDeviceToken":"google-token""#) == "DuplicateExists")
            }
        }

        @Test func `a device that registers by SIP afterwards is still a duplicate`() async throws {
            try await with { daemon async throws in
                #expect(try await register(daemon, #""ApnsDeviceToken":"\#(Self.apple)""#) == "Success")
                try await register(
                    daemon, bySIPWith: "pn-provider=apns;pn-param=DEF123GHIJ.com.example.phone;pn-prid=\(Self.apple)")
                await daemon.expect(["apns DEF123GHIJ.com.example.phone \(Self.apple)"], of: "100")
                #expect(await daemon.bindingCount() == 1)
                #expect(try await register(daemon, #""ApnsDeviceToken":"\#(Self.apple)""#) == "DuplicateExists")
                try await cleanUp(daemon, Self.apple)
            }
        }

        @Test func `one of the two tokens of an iPhone that has registered by SIP names that iPhone`() async throws {
            try await with { daemon async throws in
                let voip = String(repeating: "0c", count: 32)
                let both = "\(voip):voip&\(Self.apple):remote"
                try await register(
                    daemon,
                    bySIPWith: "pn-provider=apns;pn-param=DEF123GHIJ.com.example.phone.voip&remote;pn-prid=\(both)")
                for outcome in ["Success", "DuplicateExists"] {
                    #expect(try await register(daemon, #""ApnsDeviceToken":"\#(Self.apple)""#) == outcome)
                }
                await daemon.expect(["apns DEF123GHIJ.com.example.phone.voip&remote \(both)"], of: "100")
                try await cleanUp(daemon, Self.apple)
            }
        }

        // MARK: Failures that the providers and the directory cause

        @Test func `each provider's answer about a token is the outcome`() async throws {
            let plans = [
                Self.deadApple: #"{"status":410,"reason":"Unregistered"}"#,
                "dead": #"{"status":404,"reason":"UNREGISTERED"}"#, "bad": #"{"status":400}"#,
            ]
            try await with(plans: plans) { daemon async throws in
                for (token, outcome) in [
                    (#""ApnsDeviceToken":"\#(Self.apple)""#, "Success"), (#""FcmDeviceToken":"good""#, "Success"),
                    (#""ApnsDeviceToken":"\#(Self.deadApple)""#, "DryRunSendingFailed"),
                    (#""FcmDeviceToken":"dead""#, "DryRunSendingFailed"),
                    (#""FcmDeviceToken":"bad""#, "DryRunSendingFailed"),
                ] {
                    #expect(try await register(daemon, token) == outcome, "\(token)")
                }
                #expect(await daemon.bindingCount() == 2)
            }
        }

        @Test func `a provider that is switched off accepts no token`() async throws {
            try await with {
                $0.push.apns.enabled = false
            } _: { daemon async throws in
                #expect(try await register(daemon, #""ApnsDeviceToken":"\#(Self.apple)""#) == "DryRunSendingFailed")
                #expect(try await register(daemon, #""FcmDeviceToken":"t""#) == "Success")
            }
        }

        @Test func `the longest token can be stored, too`() async throws {
            try await with { daemon async throws in
                for (count, outcome) in [(4095, "Success"), (4096, "Success"), (4097, "DeviceTokenTooLong")] {
                    let token = String(repeating: "f", count: count)
                    #expect(try await register(daemon, #""FcmDeviceToken":"\#(token)""#) == outcome)
                }
                #expect(await daemon.bindingCount() == 2)
            }
        }

        @Test func `a user has a limited number of devices`() async throws {
            try await with {
                $0.registrar.maxContacts = 2
            } _: { daemon async throws in
                for (token, outcome) in [("t1", "Success"), ("t2", "Success"), ("t3", "FailedToStoreDevice")] {
                    #expect(try await register(daemon, #""FcmDeviceToken":"\#(token)""#) == outcome)
                }
            }
        }
    }
}
