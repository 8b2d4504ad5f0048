import HTTPServices
import Testing

extension RunningDaemonSuites {
    /// Tests requests exactly as vendors document them, and as known clients send them.
    @Suite("Sample requests", .timeLimit(.minutes(10)))
    struct SampleRequestTests {
        private static let calls = "Udl99X2JFP1bWwS5gR/wGeLE1hmAB2CMpr1Ej0wxkrY="
        private static let messages = "QVBBOTFiR3RvMmVuLTE6QVBBOTFi+/8"
        private static let selector = "12869E0E6E553673C54F29105A0647204C416A2A:7C3A0D14"
        private static let both = "acrobits app.voip&app:\(selector) \(calls):calls&\(messages):other"

        /// Header fields of a known client that closes the connection after each request.
        private static let fields =
            "Host: push.example.net\r\nConnection: close\r\nCache-Control: max-age=0\r\nUser-Agent: CloudSoftphone/1.5.6\r\n"

        /// For each row: the user, the request, and the device that is stored afterwards.
        private static let reports = [
            (
                "100",
                """
                GET /token/100/?username=100&password=se%20cret%2B1&selector=\(selector)\
                &token_calls=Udl99X2JFP1bWwS5gR%2FwGeLE1hmAB2CMpr1Ej0wxkrY%3D&appid_calls=app.voip\
                &token_msgs=QVBBOTFiR3RvMmVuLTE6QVBBOTFi%2B%2F8&appid_msgs=app HTTP/1.1\r\n\(fields)\r\n
                """, both
            ),
            (
                "101",
                """
                GET /pushToken/101/\(selector)/QVBBOTFiR3RvMmVuLTE6QVBBOTFi+/8&appid=app HTTP/1.1\r\n\(fields)\
                Authorization: Bearer KEY\r\n\r\n
                """, "acrobits app:\(selector) \(messages)"
            ),
            (
                "102",
                """
                POST /token/102/ HTTP/1.1\r\n\(fields)Authorization: Bearer KEY\r\n\
                Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 233\r\n\r\n\
                selector=12869E0E6E553673C54F29105A0647204C416A2A%3A7C3A0D14\
                &token_calls=Udl99X2JFP1bWwS5gR%2FwGeLE1hmAB2CMpr1Ej0wxkrY%3D&appid_calls=app.voip\
                &token_msgs=QVBBOTFiR3RvMmVuLTE6QVBBOTFi%2B%2F8&appid_msgs=app
                """, both
            ),
            (
                "103",
                """
                POST /v1/push-tokens HTTP/1.1\r\n\(fields)Authorization: Bearer KEY\r\n\
                Content-Type: application/json\r\nContent-Length: 256\r\n\r\n\
                {"username":"103","selector":"12869E0E6E553673C54F29105A0647204C416A2A:7C3A0D14",\
                "token_calls":"Udl99X2JFP1bWwS5gR/wGeLE1hmAB2CMpr1Ej0wxkrY=","appId_calls":"app.voip",\
                "token_msgs":"QVBBOTFiR3RvMmVuLTE6QVBBOTFi+/8","appId_msgs":"app"}
                """, both
            ),
        ]

        /// Corrects the request's Content-Length, because the document has wrong lengths.
        private static func counted(_ request: String) -> String {
            guard let end = request.firstRange(of: "\r\n\r\n"),
                let mark = request.firstRange(of: "Content-Length: "), mark.lowerBound < end.lowerBound
            else { return request }
            let rest = request[mark.upperBound...].drop(while: \.isNumber)
            return request[..<mark.upperBound] + "\(request[end.upperBound...].utf8.count)" + rest
        }

        @Test func `reports of tokens`() async throws {
            try await RunningDaemon.with { daemon in
                for (user, sample, device) in Self.reports {
                    let request = Self.counted(sample.replacing("KEY", with: daemon.key.text))
                    let answer = try await daemon.answer(request)
                    #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"), "\(user)")
                    #expect(answer.contains("\r\nContent-Length: 0\r\n") && answer.hasSuffix("\r\n\r\n"))
                    await daemon.expect([device], of: user)
                }
            }
        }

        /// For each row: the user, and the request that removes the device that was reported before.
        private static let removals = [
            (
                "100",
                """
                GET /v1/account-removals?username=100&password=se%20cret%2B1&selector=\(selector) HTTP/1.1\r\n\(fields)\r\n
                """
            ),
            ("101", "GET /v1/account-removals/101/\(selector)/ HTTP/1.1\r\n\(fields)Authorization: Bearer KEY\r\n\r\n"),
            (
                "102",
                """
                POST /v1/account-removals/102/ HTTP/1.1\r\n\(fields)Authorization: Bearer KEY\r\n\
                Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0\r\n\r\n\
                token_calls=Udl99X2JFP1bWwS5gR%2FwGeLE1hmAB2CMpr1Ej0wxkrY%3D
                """
            ),
            (
                "103",
                """
                POST /v1/account-removals HTTP/1.1\r\n\(fields)Authorization: Bearer KEY\r\n\
                Content-Type: application/json\r\nContent-Length: 0\r\n\r\n\
                {"username":"103","selector":"12869E0E6E553673C54F29105A0647204C416A2A:7C3A0D14","pushTokenOther":null}
                """
            ),
        ]

        @Test func `removals of accounts, once and again`() async throws {
            try await RunningDaemon.with { daemon in
                for ((user, sample, _), (_, removal)) in zip(Self.reports, Self.removals) {
                    func ask(_ sample: String) async throws -> String {
                        try await daemon.answer(Self.counted(sample.replacing("KEY", with: daemon.key.text)))
                    }
                    _ = try await ask(sample)
                    let known = await daemon.devices(user)
                    #expect(known.count == 1)
                    for _ in 0..<2 {
                        let answer = try await ask(removal)
                        #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"), "\(user)")
                        #expect(answer.contains("\r\nContent-Length: 0\r\n") && answer.hasSuffix("\r\n\r\n"))
                        #expect(!answer.lowercased().contains("content-type"))
                        await daemon.expect([], of: user)
                    }
                }
            }
        }

        private static let path = "/api/v1.0/orgs/org-1/pushdeviceregistration"
        private static let app = RunningDaemon.app
        private static let head = "HTTP/1.1\r\nHost: public-eur.mkt.example.net\r\nConnection: close\r\n"
        private static let json = "Content-Type: application/json\r\nContent-Length: 0\r\n\r\n"

        private static let registrations = [
            (
                "POST \(path)/devices \(head)\(json){\"MobileAppId\":\"\(app)\",\"UserId\":\"100\",\"ApiToken\":\"api-token-1\",\"ApnsDeviceToken\":\"740f4707\"}",
                202, ""
            ),
            (
                "POST \(path)/devices \(head)x-ms-track-registration: true\r\n\(json){\"MobileAppId\":\"\(app)\",\"UserId\":\"100\",\"ApiToken\":\"api-token-1\",\"FcmDeviceToken\":\"t\"}",
                202, "{\"RegistrationRequestId\":\""
            ),
            (
                "POST \(path)/devices/batch \(head)x-ms-track-registration: true\r\n\(json)[{\"MobileAppId\":\"\(app)\",\"UserId\":\"100\",\"ApiToken\":\"api-token-1\",\"FcmDeviceToken\":\"t\"}]",
                202, "[{\"RegistrationRequestId\":\""
            ),
            (
                "POST \(path)/devices/status/ \(head)\(json){\"RegistrationRequestIds\":[\"00000000-0000-0000-0000-000000000000\"],\"MobileAppId\":\"\(app)\",\"ApiToken\":\"api-token-1\"}",
                200, "[{\"Status\":\"Pending\"}]"
            ),
            (
                "POST \(path)/devices/cleanup \(head)\(json){\"MobileAppId\":\"\(app)\",\"ApiToken\":\"api-token-1\",\"UserId\":\"100\",\"DeviceToken\":\"t\"}",
                202, ""
            ),
            (
                "POST \(path)/devices/cleanup/batch \(head)\(json){\"MobileAppId\":\"\(app)\",\"ApiToken\":\"api-token-1\",\"UserId\":\"100\"}",
                202, ""
            ),
        ]

        @Test func `registrations of devices`() async throws {
            try await RunningDaemon.with(RunningDaemon.forHostileInput) { daemon in
                for (request, status, body) in Self.registrations {
                    let answer = try await daemon.answer(Self.counted(request))
                    #expect(RunningDaemon.statuses(answer) == [status], "\(request.prefix(80))")
                    guard let end = answer.firstRange(of: "\r\n\r\n") else { continue }
                    let got = answer[end.upperBound...]
                    #expect(body.isEmpty ? got.isEmpty : got.hasPrefix(body), "\(request.prefix(80))")
                }
            }
        }
    }
}
