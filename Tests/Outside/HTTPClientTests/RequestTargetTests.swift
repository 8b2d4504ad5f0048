import HTTPClient
import Testing

@Suite("Targets of URLs")
struct RequestTargetTests {
    @Test(arguments: [
        ("https://a.example/3/device/secret", "a.example:443"), ("http://a.example?secret", "a.example:80"),
        ("https://a.example:8443", "a.example:8443"), ("https://[::443]/", "[::443]:443"),
        ("https://user:secret@a.example:1/@b", "a.example:1"), ("ftp://a.example/", nil), ("https://a.example:0/", nil),
        ("https:///", nil), ("https://[::1/", nil), ("https://a.example:65536/", nil),
    ])
    func `operators see host and port, and no secret`(url: String, server: String?) {
        #expect(RequestTarget(url)?.server == server)
    }
}
