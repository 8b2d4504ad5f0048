import HTTPSemantics
import Settings
import Testing
import TestSupport

@testable import ProxyRuntime

@Suite("Settings of spans")
struct OTLPSettingsTests {
    @Test(arguments: [
        "127.0.0.1:4318", "ftp://h/", "http:///v1/traces", "http://", "http:/h", "http://user:S3CR3T@h/",
        "http://h/a b", "http://h/#x", "udp:h:1",
    ])
    func `a wrong URL is refused`(url: String) {
        #expect(throws: SettingsError.self) { try OTLPSettings(yaml: Array("url: \"\(url)\"\n".utf8), file: "test") }
    }

    @Test func `authorities need https`() throws {
        let text = "ca-file: /tmp/a\nurl: "
        #expect(throws: SettingsError.self) {
            try OTLPSettings(yaml: Array("\(text)\"http://h:1\"\n".utf8), file: "test")
        }
        #expect(try OTLPSettings(yaml: Array("\(text)\"https://h:1\"\n".utf8), file: "test").place == "https://h:1")
    }

    @Test(arguments: [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://otlp.example.net/", "https://otlp.example.net/v1/traces"),
        ("https://otlp.example.net/own/path?a=b", "https://otlp.example.net/own/path?a=b"),
    ])
    func `a URL without a path gets the protocol's path`(url: String, target: String) {
        var settings = OTLPSettings()
        settings.url = url
        #expect(settings.target == target)
        #expect(!settings.place.contains("path") && url.hasPrefix(settings.place))
    }

    private func headers(_ text: String) throws -> [HTTPField] {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        var settings = OTLPSettings()
        settings.headersFile = try folder.write(Array(text.utf8), to: "headers")
        return try settings.headers()
    }

    @Test func `a file has one header field per line`() throws {
        #expect(
            try headers("Authorization: Bearer a:b \r\n\n  X-Scope-OrgID:tenant") == [
                HTTPField("Authorization", "Bearer a:b"), HTTPField("X-Scope-OrgID", "tenant"),
            ])
        #expect(try headers("").isEmpty)
        #expect(try OTLPSettings().headers().isEmpty)
    }

    @Test(arguments: [
        "S3CR3T", ": S3CR3T", "A B: S3CR3T", "X: S3\u{1}CR3T", "X:", "Host: S3CR3T", "content-length: S3CR3T",
    ])
    func `a wrong line is refused, and the error names no secret`(line: String) {
        do {
            _ = try headers("X-A: b\n\(line)\n")
            Issue.record("accepted \(line)")
        } catch {
            let text = "\(error)"
            #expect(text.contains("line 2") && !text.contains("S3CR3T") && !text.contains("CR3T"))
        }
    }
}
