import Control
import Persistence
import ProxyPolicy
import Addressing
import ProxyCore
import PushDelivery
import PushSending
import Reactor
import Registration
import Testing
import UserSources

@testable import ProxyDaemon

/// Tests the findings of `sippushd doctor` for given facts.
@Suite("Findings of doctor")
struct FindingsTests {
    private let phone = FileIdentity(name: "nobody", user: 65_534, group: 65_534, groups: [50])

    private func status(_ path: String, _ mode: UInt32, user: UInt32 = 0, group: UInt32 = 0, acl: [UInt8] = [])
        -> FileStatus
    {
        FileStatus(path: path, user: user, group: group, mode: mode, accessList: acl)
    }

    private func fact(
        _ steps: [FileStatus], wish: FileWish = .read, isThere: Bool = true,
        answer: FileAccess.Answer = .refused(SystemError(call: "access", code: 13)), unit: String? = nil
    ) -> FileFact {
        FileFact(
            file: NamedFile(key: "tls.key-file", path: "/etc/sippushd/key.pem", wish: wish), steps: steps,
            isThere: isThere, answer: answer, unitObstacle: unit)
    }

    private func levels(_ findings: [Finding]) -> [Finding.Level] { findings.map(\.level) }

    // MARK: Files

    @Test func `a key of root alone is named with the command that gives it to the service`() throws {
        let found = FileRights.findings(
            [fact([status("/", 0o755), status("/etc/sippushd", 0o755), status("/etc/sippushd/key.pem", 0o600)])],
            for: phone)
        let finding = try #require(found.first)
        #expect(found.count == 1 && finding.level == .wrong)
        #expect(finding.words.contains("nobody cannot read /etc/sippushd/key.pem"))
        #expect(finding.words.contains("0600"))
        #expect(finding.cure?.hasPrefix("chgrp ") == true)
        #expect(finding.cure?.hasSuffix("chmod g+r /etc/sippushd/key.pem") == true)
    }

    @Test(arguments: ["/root", "/run", "/var/lib"])
    func `a folder of the whole system is never given away`(folder: String) throws {
        let found = FileRights.findings(
            [fact([status("/", 0o755), status(folder, 0o700), status("\(folder)/key.pem", 0o644)])], for: phone)
        let cure = try #require(found.first?.cure)
        #expect(!cure.contains("chgrp") && !cure.contains("chown") && cure.contains("change the setting"))
    }

    @Test func `a folder that the service may not enter is named instead of the file`() throws {
        let found = FileRights.findings(
            [fact([status("/", 0o755), status("/etc/sippushd", 0o700), status("/etc/sippushd/key.pem", 0o644)])],
            for: phone)
        #expect(found.first?.words.contains("it may not enter /etc/sippushd ") == true)
        #expect(found.first?.cure?.hasSuffix("chmod g+x /etc/sippushd") == true)
    }

    @Test func `what the kernel refuses against the rights is blamed on neither owner nor mode`() {
        let steps = [status("/etc/sippushd/key.pem", 0o644)]
        #expect(FileRights.findings([fact(steps)], for: phone).first?.cure?.contains("AppArmor") == true)
        // The permission bits of the file decide if the kernel gives no answer.
        #expect(levels(FileRights.findings([fact(steps, answer: .unknown)], for: phone)) == [.ok])
        #expect(levels(FileRights.findings([fact(steps, answer: .allowed)], for: phone)) == [.ok])
        let closed = [status("/etc/sippushd/key.pem", 0o600)]
        #expect(levels(FileRights.findings([fact(closed, answer: .unknown)], for: phone)) == [.wrong])
    }

    @Test func `a missing file, and what the unit hides, are told as such`() {
        let missing = FileRights.findings([fact([], isThere: false)], for: phone)
        #expect(missing.first?.words.hasSuffix("does not exist") == true && missing.worst == .wrong)
        let folder = NamedFile(key: "store", path: "/var/lib/sippushd", wish: .fill)
        let later = FileRights.findings(
            [FileFact(file: folder, steps: [], isThere: false, answer: .unknown)], for: phone)
        #expect(levels(later) == [.note])
        let hidden = FileRights.findings([fact([], unit: "ProtectHome= hides it")], for: phone)
        #expect(hidden.first?.words.contains("ProtectHome=") == true && hidden.worst == .wrong)
    }

    @Test func `a user that systemd makes gets its keys by LoadCredential`() {
        let found = FileRights.findings([fact([status("/etc/sippushd/key.pem", 0o600)])], for: phone, isDynamic: true)
        #expect(found.first?.cure?.contains("LoadCredential=NAME:/etc/sippushd/key.pem") == true)
    }

    @Test(arguments: [
        (0o600, 65_534, 0, FileWish.read, true), (0o060, 65_534, 0, .read, false), (0o640, 0, 50, .read, true),
        (0o640, 0, 51, .read, false), (0o604, 0, 51, .read, true), (0o604, 0, 50, .read, false),
        (0o640, 0, 50, .write, false), (0o770, 0, 50, .fill, true), (0o711, 0, 0, .enter, true),
        (0o744, 0, 0, .enter, false),
    ])
    func `owner, then group, then others`(mode: UInt32, user: UInt32, group: UInt32, wish: FileWish, may: Bool) {
        #expect(FileRights.allows(status("/f", mode, user: user, group: group), wish, phone) == may)
        let root = FileIdentity(name: "root", user: 0, group: 0)
        #expect(FileRights.allows(status("/f", mode, user: user, group: group), wish, root))
    }

    /// Builds an entry of an access control list.
    private func entry(_ tag: UInt8, _ rights: UInt8, _ number: UInt32 = .max) -> [UInt8] {
        [tag, 0, rights, 0] + (0..<4).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }

    @Test func `a list of access counts, under its mask`() {
        let head: [UInt8] = [2, 0, 0, 0]
        func may(_ list: [UInt8]) -> Bool { FileRights.allows(status("/f", 0o640, acl: list), .read, phone) }
        let base = entry(1, 6) + entry(4, 0) + entry(0x20, 0)
        #expect(!may(head + base))
        #expect(may(head + base + entry(2, 4, 65_534)))
        #expect(!may(head + base + entry(2, 4, 65_534) + entry(0x10, 0)))
        #expect(may(head + base + entry(8, 4, 50)))
        #expect(!may(head + base + entry(8, 4, 51)))
        // `doctor` ignores an access control list that it cannot read.
        #expect(!may([9, 9]) && !may(head + [1, 2, 3]))
    }

    // MARK: The unit

    @Test func `the unit says who the service is and what it sees`() {
        let unit = ServiceUnit([
            """
            [Service]
            # User=other
            User=sippushd
            SupplementaryGroups=ssl-cert
            StateDirectory=sippushd
            RuntimeDirectory = sippushd
            LimitNOFILE=1024:2048
            ProtectHome=yes
            PrivateTmp=yes
            ProtectSystem=strict
            LoadCredential=apns.p8:/etc/keys/apns.p8
            """, "[Service]\nReadWritePaths=-/srv/calls\nSupplementaryGroups=\n",
        ])
        #expect(unit.user == "sippushd" && unit.groups.isEmpty && unit.openFiles == 2048)
        #expect(unit.credentials == ["apns.p8": "/etc/keys/apns.p8"])
        #expect(unit.obstacle(to: "/home/bob/key.pem", isWritten: false)?.contains("ProtectHome=") == true)
        #expect(unit.obstacle(to: "/tmp/x", isWritten: true)?.contains("PrivateTmp=") == true)
        #expect(unit.obstacle(to: "/opt/x", isWritten: true)?.contains("ProtectSystem=strict") == true)
        for path in ["/var/lib/sippushd", "/run/sippushd/control.sock", "/srv/calls/1"] {
            #expect(unit.obstacle(to: path, isWritten: true) == nil)
        }
        #expect(unit.obstacle(to: "/etc/sippushd/key.pem", isWritten: false) == nil)
        // The service unit determines which paths the service cannot see; without a unit, the service sees all paths.
        #expect(ServiceUnit(["[Service]\nDynamicUser=1"]).isDynamic)
        #expect(ServiceUnit([]).obstacle(to: "/home/bob/key.pem", isWritten: true) == nil)
    }

    // MARK: Providers and the clock

    @Test func `each verdict has its level, and a wrong clock a line`() {
        func result(_ verdict: TrialVerdict, _ lead: Int64? = nil) -> TrialResult {
            TrialResult(verdict: verdict, clockLead: lead)
        }
        let found = ProviderFindings.findings([
            ("apns", result(.works, 1)), ("acrobits", result(.reached("no credentials"))),
            ("fcm", result(.refused("PERMISSION_DENIED", cure: "Give it the right."), -90_000)),
            ("http/a", result(.failed("no route", cure: "Look at the firewall."))),
        ])
        #expect(levels(found) == [.ok, .ok, .wrong, .wrong, .wrong])
        #expect(found[2].area == "provider fcm" && found[2].cure == "Give it the right.")
        #expect(found[4].area == "clock" && found[4].words == "it is 90000 s behind the clock of fcm")
        #expect(levels(ProviderFindings.findings([("apns", result(.works, 59))])) == [.ok, .ok])
        #expect(levels(ProviderFindings.findings([("apns", result(.works))])) == [.ok])
        #expect(levels(ProviderFindings.findings([])) == [.note])
    }

    // MARK: Names

    @Test func `names without an address are wrong where others rely on them`() {
        let own = [IPAddress.loopbackV4]
        func level(_ purpose: NameFact.Purpose, _ addresses: [IPAddress], hasFailed: Bool = false) -> Finding.Level? {
            NameFindings.findings(
                [NameFact(name: "a.example", purpose: purpose, addresses: addresses, hasFailed: hasFailed)], own: own
            ).first?.level
        }
        let far = IPAddress(v4: 0xc000_0201)
        #expect(level(.domain, own) == .ok && level(.advertised, own) == .ok && level(.upstream, [far]) == .ok)
        #expect(level(.domain, [far]) == .note && level(.advertised, [far]) == .note)
        #expect(level(.domain, []) == .note && level(.advertised, []) == .wrong && level(.upstream, []) == .wrong)
        #expect(level(.domain, [], hasFailed: true) == .wrong)
    }

    @Test func `passwords for another realm are wrong`() {
        func found(_ users: [String], realm: String? = nil) -> [Finding] {
            RealmFindings.findings(
                users: users, isWhole: true, domains: ["Example.net"],
                realms: UserRealms(domains: ["Example.net"], realms: Realms(common: realm)))
        }
        #expect(levels(found(["bob@example.net"])) == [.ok])
        #expect(levels(found([])) == [.note])
        let wrong = found(["bob@example.net"], realm: "asterisk")
        #expect(levels(wrong) == [.wrong] && wrong[0].words.contains("asterisk"))
        #expect(levels(found(["bob@asterisk"], realm: "asterisk")) == [.ok])
    }

    // MARK: Users

    @Test func `a source of users answers that nobody has the name of doctor`() {
        func found(_ answer: UserAnswer?, realms: [String] = ["example.net"], asked: String? = nil) -> [Finding] {
            UserFindings.findings([UserSourceFact(name: "pbx", answer: answer)], realms: realms, asked: asked)
        }
        #expect(levels(found(.unknown, asked: "example.net")) == [.ok, .ok])
        #expect(levels(found(.unknown)) == [.ok, .note])
        let other = found(.unknown, asked: "asterisk")
        #expect(levels(other) == [.ok, .note] && other[1].cure?.contains("asterisk") == true)
        let away = found(.away(UserFault("the connection failed", cure: "Start it.")))
        #expect(levels(away).first == .wrong && away[0].words == "users.sources.pbx: the connection failed")
        #expect(away[0].cure == "Start it.")
        #expect(levels(found(nil)).first == .note)
        #expect(levels(found(.found(UserSecrets()))).first == .wrong)
        #expect(levels(found(.unusable(.severalRows))).first == .wrong)
        #expect(UserFindings.findings([], realms: ["x"], asked: "y").isEmpty)
    }

    // MARK: Ports

    @Test func `a port is free, ours, or named with its owner`() {
        let taken = SystemError(call: "bind", code: 98)
        func found(_ obstacle: SystemError?, _ owner: PortOwner? = nil, daemon: Int32? = nil) -> [Finding] {
            PortFindings.findings(
                [PortFact(name: "udp:0.0.0.0:5060", obstacle: obstacle, owner: owner)], daemon: daemon)
        }
        #expect(levels(found(nil)) == [.ok])
        let other = found(taken, PortOwner(process: 812, name: "asterisk"))
        #expect(levels(other) == [.wrong] && other[0].words.contains("asterisk (process 812)"))
        #expect(levels(found(taken, PortOwner(process: 812, name: "asterisk"), daemon: 7)) == [.wrong])
        #expect(levels(found(taken, PortOwner(process: 7, name: "sippushd"), daemon: 7)) == [.ok])
        #expect(levels(found(taken, PortOwner(process: 1, name: "systemd"))) == [.ok])
        #expect(levels(found(taken, daemon: -1)) == [.ok] && levels(found(taken)) == [.wrong])
        // A port that the running daemon does not use is reported as wrong, because the daemon has other settings.
        #expect(levels(found(nil, daemon: 7)) == [.wrong])
        #expect(found(SystemError(call: "bind", code: 99))[0].words.contains("no such address"))
        #expect(found(SystemError(call: "bind", code: 13))[0].cure?.contains("CAP_NET_BIND_SERVICE") == true)
    }

    // MARK: The daemon and its store

    @Test func `a daemon that is not ready is wrong, whatever its files look like`() {
        func finding(_ isThere: Bool, _ state: DaemonState?) -> Finding {
            StateFindings.daemon(at: "/run/c", isThere: isThere, state)
        }
        #expect(finding(true, .ready).level == .ok && finding(true, nil).level == .ok)
        #expect(finding(false, nil).level == .note)
        #expect(finding(true, .degraded("push provider fcm is paused")).level == .note)
        let failing = finding(true, .notReady("not ready: the store cannot be written"))
        #expect(failing.level == .wrong && failing.words.contains("the store cannot be written"))
    }

    @Test func `nodes of different versions are noted, and a schema of a newer version is wrong`() {
        let mixed = StateFindings.database("postgresql db", .mixed("a has 0.2.0, b has 0.3.0"))
        #expect(mixed.level == .note && mixed.words.contains("b has 0.3.0"))
        #expect(mixed.cure?.contains("Upgrade the older nodes") == true)
        #expect(StateFindings.database("postgresql db", .away("a newer version wrote")).level == .wrong)
    }

    @Test func `a store that was removed is named, with the way back`() throws {
        func found(_ isThere: Bool, _ hasLock: Bool, isVisible: Bool = true, hasDaemon: Bool = false) -> [Finding] {
            StateFindings.store(
                StoreFact(path: "/var/lib/s.db", isThere: isThere, hasLock: hasLock, isVisible: isVisible),
                hasDaemon: hasDaemon)
        }
        #expect(levels(found(true, true)) == [.ok] && levels(found(true, false)) == [.ok])
        // A daemon that was never started has no store, and `doctor` reports no fault.
        #expect(found(false, false).isEmpty)
        #expect(found(false, true, isVisible: false).isEmpty)
        let removed = try #require(found(false, true).first)
        #expect(removed.level == .wrong && removed.words.contains("the daemon does not start"))
        #expect(
            removed.cure?.contains("restore a backup") == true && removed.cure?.contains("/var/lib/s.db.lock") == true)
        #expect(found(false, true, hasDaemon: true).first?.words.contains("stores no change") == true)
        #expect(levels(found(false, false, hasDaemon: true)) == [.wrong])
    }

    // MARK: Peers

    private func peer(_ setting: String, _ answer: PeerFact.Answer) -> PeerFact {
        PeerFact(
            setting: setting, value: "x", endpoint: Endpoint(IPAddress(v4: 0xc000_020a), 5060), transport: .udp,
            answer: answer)
    }

    private func found(_ facts: [PeerFact], trusted: [String], authenticates: Bool = true) -> [Finding] {
        PeerFindings.findings(
            facts, trusted: trusted.compactMap { TrustedPeer($0) }, hasUpstream: !facts.isEmpty,
            authenticates: authenticates)
    }

    @Test func `an upstream must answer and be trusted`() {
        let good = peer("upstream", .status(403))
        #expect(levels(found([good], trusted: ["192.0.2.0/24"])) == [.ok])
        #expect(levels(found([good], trusted: ["192.0.2.10:5070"])) == [.ok])
        #expect(levels(found([good], trusted: ["pbx.example.net"])) == [.ok])
        let foreign = found([good], trusted: ["192.0.2.11"])
        #expect(levels(foreign) == [.ok, .wrong] && foreign[1].cure?.contains("192.0.2.10") == true)
        #expect(levels(found([good], trusted: [])) == [.ok, .wrong])
        #expect(levels(found([good], trusted: [], authenticates: false)) == [.ok])
        #expect(levels(found([peer("upstream", .silence)], trusted: ["192.0.2.10"])) == [.wrong])
        #expect(levels(found([peer("upstream", .failed("refused"))], trusted: ["192.0.2.10"])) == [.wrong])
        // A trusted PBX need not answer OPTIONS, because it may only make calls.
        #expect(levels(found([peer("trusted", .silence)], trusted: ["192.0.2.10"])) == [.note])
        #expect(levels(found([], trusted: [])) == [.note])
    }

    // MARK: PBXs with users of the daemon

    @Test func `a PBX that is away, asks in another realm, refuses users or takes our word is told`() {
        func found(
            isUp: Bool? = true, asked: String? = "asterisk", credence: String = "asks", refused: Int = 0
        ) -> [Finding] {
            let bob = UpstreamUserReport(
                aor: "bob@example.net", state: "refused", since: 1, status: 403, remaining: 0,
                reason: "it refused the password (403)", advice: nil)
            return PBXFindings.findings([
                UpstreamDomainReport(
                    domain: "example.net", pbx: "sip:192.0.2.10", isUp: isUp, realm: "asterisk", askedRealm: asked,
                    credence: credence, registered: 3, waiting: 1, refused: refused,
                    examples: refused > 0 ? [bob] : [])
            ])
        }
        #expect(levels(found()) == [.ok, .ok])
        #expect(found().first?.words.contains("3 users are registered, 1 wait") == true)
        #expect(levels(found(isUp: nil, asked: nil)) == [.note])
        #expect(levels(found(isUp: false)) == [.wrong, .ok])
        let realm = found(asked: "pbx")
        #expect(levels(realm) == [.ok, .wrong] && realm[1].cure?.contains("digest.realm to pbx") == true)
        let refused = found(refused: 7)
        #expect(levels(refused) == [.ok, .ok, .wrong])
        #expect(refused[2].words.contains("7 users") && refused[2].words.contains("bob@example.net: it refused"))
        #expect(levels(found(credence: "takes-our-word")) == [.ok, .ok, .note])
    }

    // MARK: The machine

    @Test func `a slow or full disk, a small buffer and few descriptors are told`() {
        func found(_ change: (inout MachineFacts) -> Void) -> [Finding] {
            var facts = MachineFacts()
            change(&facts)
            return MachineFindings.findings(facts)
        }
        func disk(_ syncs: Int, _ bytes: UInt64, files: UInt64 = 9) -> [Finding] {
            found {
                $0.disks = [
                    (
                        "/d",
                        .success(DiskProbe(syncsPerSecond: syncs, freeBytes: bytes, freeFiles: files, totalFiles: 9))
                    )
                ]
            }
        }
        #expect(levels(disk(1000, 9 << 30)) == [.ok, .ok])
        #expect(levels(disk(20, 9 << 30)) == [.note, .ok])
        #expect(levels(disk(1000, 500 << 20)) == [.ok, .note])
        #expect(levels(disk(1000, 1 << 20)) == [.ok, .wrong])
        #expect(levels(disk(1000, 9 << 30, files: 0)) == [.ok, .wrong])
        let full = found { $0.disks = [("/d", .failure(SystemError(call: "write", code: 28)))] }
        #expect(levels(full) == [.wrong] && full[0].cure == "Free some room: df -h /d")
        #expect(levels(found { $0.disks = [("/d", .failure(SystemError(call: "open", code: 13)))] }) == [.note])
        #expect(levels(found { ($0.hasUDP, $0.receiveMemory) = (true, 212_992) }) == [.note])
        #expect(levels(found { ($0.hasUDP, $0.receiveMemory) = (true, 8 << 20) }) == [.ok])
        #expect(found { ($0.hasUDP, $0.receiveMemory) = (false, 212_992) }.isEmpty)
        func descriptors(_ served: Int) -> [Finding] {
            found { ($0.descriptors, $0.wantedConnections, $0.servedConnections) = ((1024, "x"), 900, served) }
        }
        #expect(levels(descriptors(900)) == [.ok] && levels(descriptors(899)) == [.note])
    }

    @Test func `the worst level is the report's`() {
        #expect([Finding]().worst == .ok)
        #expect([Finding("a", .note, ""), Finding("a", .wrong, ""), Finding("a", .ok, "")].worst == .wrong)
        #expect([Finding("a", .note, ""), Finding("a", .ok, "")].worst == .note)
    }
}
