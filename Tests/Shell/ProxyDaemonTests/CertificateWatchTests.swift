import Crypto
import LoopTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import ProxyDaemon

@Suite("Watch over certificates (T35.4)")
struct CertificateWatchTests {
    /// Runs a test with a ``CertificateWatch`` for the certificate in the settings `tls`; the certificate is valid for
    /// a hundred days.
    private func withWatch(_ body: @Sendable (CertificateWatch, MemoryLogSink, TemporaryFolder) throws -> Void)
        async throws
    {
        let folder = try TemporaryFolder()
        let identity = try SelfSignedCertificate(hosts: ["sip.example.net"], validDays: 100)
        var settings = DaemonSettings()
        settings.tls.certFile = try folder.write(identity.certificate, to: "cert.pem")
        let sink = MemoryLogSink()
        try await withLoop { [settings] loop async throws in
            try await Bench(loop).run { bench in
                let log = Log(level: .notice, sink: sink) { UnixTime(milliseconds: 0) }
                let watch = try CertificateWatch(on: bench.loop, log: log)
                watch.watch(settings)
                try body(watch, sink, folder)
            }
        }
    }

    /// The moment that is `days` days before the certificate expires.
    private func moment(_ days: Int64, before watch: CertificateWatch) throws -> Moment {
        let end = try #require(watch.ends.first?.date)
        return Moment(instant: watch.next, date: end + .seconds(-days * 86_400 - 1))
    }

    @Test func `it checks each day, warns two weeks before the end, and reports the end`() async throws {
        try await withWatch { watch, sink, _ in
            #expect(watch.ends.count == 1 && sink.lines.isEmpty)
            watch.look(at: try moment(15, before: watch))
            #expect(sink.lines.isEmpty)
            let before = watch.next
            watch.look(at: try moment(13, before: watch))
            #expect(watch.next - before == .seconds(86_400))
            let line = try #require(sink.lines.last)
            #expect(line.contains("warning a certificate expires soon") && line.contains("cert.pem"))
            #expect(line.contains("count=13"))
            watch.look(at: try moment(12, before: watch))
            #expect(sink.lines.count == 2)
            watch.look(at: try moment(-1, before: watch))
            #expect(sink.lines.last?.contains("error a certificate has expired") == true)
        }
    }

    @Test func `a certificate that was renewed is not reported any more`() async throws {
        try await withWatch { watch, sink, folder in
            let late = try moment(3, before: watch)
            watch.look(at: late)
            #expect(sink.lines.count == 1)
            let renewed = try SelfSignedCertificate(hosts: ["sip.example.net"], validDays: 200)
            _ = try folder.write(renewed.certificate, to: "cert.pem")
            watch.look(at: late)
            #expect(sink.lines.count == 1)
            let end = try #require(watch.ends.first?.date)
            #expect(end - late.date > .seconds(90 * 86_400))
        }
    }
}
