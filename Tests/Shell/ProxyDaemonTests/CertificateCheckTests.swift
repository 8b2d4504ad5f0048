import Crypto
import ProxyDaemon
import TestSupport
import Testing
import Timekeeping

/// What `sippushd cert check` finds.
@Suite("Check of certificates")
struct CertificateCheckTests {
    /// A certificate for `sip.example.net`, valid for a hundred days, and its key, in files.
    private struct Files {
        let folder: TemporaryFolder
        let certificate: String
        let key: String
        let otherKey: String

        init() throws {
            folder = try TemporaryFolder()
            let identity = try SelfSignedCertificate(hosts: ["sip.example.net"], validDays: 100)
            let other = try SelfSignedCertificate(hosts: ["other.example"])
            certificate = try folder.write(identity.certificate, to: "cert.pem")
            key = try folder.write(identity.key, to: "key.pem")
            otherKey = try folder.write(other.key, to: "other.pem")
        }
    }

    private let files: Files
    /// A day after the certificate begins.
    private let now: UnixTime

    init() throws {
        files = try Files()
        let identity = TLSIdentity(certificate: .file(files.certificate), key: .file(files.key))
        now = try CertificateReport(identity, for: [], authorities: nil).begins + .seconds(86_400)
    }

    private func problems(
        of certificate: String? = nil, key: String? = nil, name: String = "sip.example.net",
        after time: Duration = .zero,
        authorities: String? = "own"
    ) -> [String] {
        var check = CertificateCheck(on: now + time)
        check.check(
            certificate: certificate ?? files.certificate, key: key ?? files.key, names: [name],
            authorities: authorities == "own" ? files.certificate : authorities)
        return check.problems
    }

    @Test func `nothing is wrong with a certificate whose authority is known, for its name and its time`() {
        #expect(problems() == [])
    }

    @Test func `it says for whom and until when a certificate is`() throws {
        var check = CertificateCheck(on: now)
        check.check(certificate: files.certificate, key: files.key, names: [], authorities: files.certificate)
        let line = try #require(check.lines.first)
        #expect(line.contains("for sip.example.net;"))
        #expect(check.lines.count == 1)
    }

    @Test func `another name`() {
        #expect(problems(name: "sip.example.org") == ["\(files.certificate): it does not cover sip.example.org"])
    }

    @Test func `an authority that phones do not know`() throws {
        let problem = try #require(problems(authorities: nil).first)
        #expect(problem.hasPrefix("\(files.certificate): phones do not trust it: "))
    }

    @Test func `dates`() throws {
        let early = try #require(problems(after: .seconds(-2 * 86_400)).first)
        #expect(early.contains("it is not valid before"))
        let late = try #require(problems(after: .seconds(90 * 86_400)).first)
        #expect(late.contains("it expires on"))
        let over = try #require(problems(after: .seconds(101 * 86_400)).first)
        #expect(over.contains("it expired on"))
    }

    @Test func `a key of another certificate, and files that are none`() throws {
        #expect(problems(key: files.otherKey).count == 1)
        #expect(try #require(problems(of: files.key).first).contains(files.key))
        let missing = files.folder.file("missing.pem")
        #expect(try #require(problems(of: missing).first).contains(missing))
    }

    @Test func `each name that phones know us by must have a certificate`() {
        var settings = DaemonSettings()
        settings.advertise = "sip.example.net"
        settings.domains = ["example.net"]
        var check = CertificateCheck(on: now)
        check.check(settings, authorities: files.certificate)
        #expect(check.problems == ["the settings name no certificate: set tls.cert-file"])
        settings.tls.certFile = files.certificate
        settings.tls.keyFile = files.key
        check = CertificateCheck(on: now)
        check.check(settings, authorities: files.certificate)
        #expect(check.problems == ["example.net: no certificate covers this name, which phones use for this daemon"])
    }
}
