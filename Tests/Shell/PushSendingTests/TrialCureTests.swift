import HTTPClient
import Testing

@testable import PushSending

@Suite("Cures for providers that were not reached")
struct TrialCureTests {
    @Test func `a name that DNS does not know is asked for by its host alone`() {
        let error = HTTPClientError(.resolve, detail: "DNS has no such name, or no address for it")
        let cure = TrialCure.of(error, at: "https://api.push.apple.com/3/device/00")
        #expect(cure.contains("dig api.push.apple.com.") && cure.contains("/etc/resolv.conf"))
        #expect(TrialCure.of(error, at: "https://push.example.net:8443/x").contains("dig push.example.net."))
        #expect(!TrialCure.of(HTTPClientError(.timeout), at: "https://api.push.apple.com/").contains("dig"))
    }
}
