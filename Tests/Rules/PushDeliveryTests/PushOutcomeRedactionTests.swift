import Bytes
import PushDelivery
import Testing

@Suite("Providers' answers about a token")
struct PushOutcomeRedactionTests {
    private func struck(_ reason: String, _ prid: String) -> String {
        let token = PushToken(provider: .http, param: .empty, prid: ByteString(prid))
        guard case .payloadRefused(let payload) = PushOutcome.payloadRefused(reason).redacted(of: token),
            case .credentialsRefused(let credentials) = PushOutcome.credentialsRefused(reason).redacted(of: token),
            payload == credentials
        else { return "" }
        return payload
    }

    @Test(arguments: [
        ("no such token 0123456789abcdef", "0123456789abcdef", "no such token …"),
        ("0123456789abcdef0123456789abcdef!", "0123456789abcdef", "……!"),
        // Answers of a provider that contain the beginning or other parts of the token.
        ("no such token 0123456789ab", "0123456789abcdef", "no such token …"),
        ("bad 00112233445566778899 and aabbccddeeff", "00112233445566778899:voip&aabbccddeeff:remote", "bad … and …"),
        ("gone: https://push.example.org/s/QWxhZGRpbjpvcGVu", "https://push.example.org/s/QWxhZGRpbjpvcGVu", "gone: …"),
        ("no path /s/QWxhZGRpbjpvcGVu", "https://push.example.org/s/QWxhZGRpbjpvcGVu", "no path /s/…"),
        // Answers of a provider that contain at most a few characters of the token, so that nothing is removed from
        // them.
        ("InvalidParameters", "0123456789abcdef", "InvalidParameters"), ("0123", "0123456789abcdef", "0123"),
        ("é 0123", "short", "é 0123"), ("", "0123456789abcdef", ""),
    ])
    func `the token is struck from it`(reason: String, prid: String, expected: String) {
        #expect(struck(reason, prid) == expected)
    }

    @Test func `other outcomes stay`() {
        let token = PushToken(provider: .fcm, param: .empty, prid: ByteString("0123456789abcdef"))
        for outcome in [
            .accepted(ByteString("0123456789abcdef")), .acceptedWithNewToken(ByteString("0123456789abcdef")),
            .tokenDead(since: nil), .retry(after: nil), .renewCredential, .noSuitableToken,
        ] as [PushOutcome] {
            #expect(outcome.redacted(of: token) == outcome)
        }
    }
}
