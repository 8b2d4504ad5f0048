import Crypto
import ProxyDaemon
import TestSupport
import Testing
import Timekeeping

/// Tests the findings of `sippushd cert check`.
@Suite("Check of certificates")
struct CertificateCheckTests {
    /// Files with a certificate for `sip.example.net`, which is valid for a hundred days, and its key.
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
    /// The time of the check: a day after the certificate became valid.
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

    @Test func `a certificate with a known authority, the right name and a valid time has no problem`() {
        #expect(problems() == [])
    }

    @Test func `it prints the names and the end of a certificate`() throws {
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

    @Test func `outside its dates a certificate has no second fault, whose cure would mislead`() {
        #expect(problems(authorities: nil).contains { $0.contains("phones do not trust it") })
        #expect(problems(after: .seconds(101 * 86_400), authorities: nil).count == 1)
        #expect(problems(after: .seconds(-2 * 86_400), authorities: nil).count == 1)
    }

    @Test func `a key of another certificate, and invalid files`() throws {
        #expect(problems(key: files.otherKey).count == 1)
        #expect(try #require(problems(of: files.key).first).contains(files.key))
        let missing = files.folder.file("missing.pem")
        #expect(try #require(problems(of: missing).first).contains(missing))
    }

    @Test func `each name that phones use for the daemon must have a certificate`() {
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
