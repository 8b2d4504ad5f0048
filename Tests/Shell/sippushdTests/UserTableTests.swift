import Bytes
import Control
import Registration
import Testing

@testable import sippushd

@Suite("Rows of users")
struct UserTableTests {
    private static let realms = UserRealms(domains: ["example.net", "Example.org"], realms: Realms(common: nil))
    /// The HA1 hash of user `bob`, realm `example.net` and password `secret`.
    private static let md5 = "7d7e85b76c9d8c9c2c3d5f5f6a1fb0a3"

    private func table(
        _ head: String, _ realms: UserRealms = Self.realms, takesMD5: Bool = true
    ) throws(UserTable.Refusal) -> UserTable {
        try UserTable(head: Array(head.utf8), realms: realms, takesMD5: takesMD5)
    }

    private func user(_ head: String, _ row: String, _ realms: UserRealms = Self.realms) throws -> UserCredentials {
        var table = try table(head, realms)
        return try table.user(Array(row.utf8), line: 2)
    }

    private func refusal(
        _ head: String, _ rows: [UInt8]..., realms: UserRealms = Self.realms, takesMD5: Bool = true
    ) -> String? {
        do throws(UserTable.Refusal) {
            var table = try table(head, realms, takesMD5: takesMD5)
            for (index, row) in rows.enumerated() { _ = try table.user(row, line: index + 2) }
            return nil
        } catch {
            return error.reason
        }
    }

    private func refusal(
        _ head: String, _ row: String, realms: UserRealms = Self.realms, takesMD5: Bool = true
    ) -> String? {
        refusal(head, Array(row.utf8), realms: realms, takesMD5: takesMD5)
    }

    @Test func `a password gives every hash, as user add makes it`() throws {
        let expected = try UserCredentials(name: "bob@example.net", password: "secret", realms: Self.realms)
        for (head, row) in [
            ("user,domain,password", "bob,example.net,secret"), ("password,user", "secret,bob"),
            ("\u{feff}User,PASSWORD", "bob,secret"), ("username,domain,password,ha1,ha1b", "bob,EXAMPLE.NET,secret,,x"),
            ("username,realm,password,md5_cred", "bob,asterisk,secret,"),
            ("user,realm,password", "bob,example.net,secret"), ("user,password", "bob@example.net,secret"),
            ("user,password,ha1", "\"bob\",secret,\(expected.ha1MD5.uppercased())"),
        ] {
            let found = try user(head, row)
            #expect(found.name == "bob@example.net", "\(head)")
            #expect(found.ha1MD5 == expected.ha1MD5 && found.ha1SHA256 == expected.ha1SHA256, "\(head)")
            #expect(found.ha1SHA512_256 == expected.ha1SHA512_256 && found.ha1SHA256?.count == 64, "\(head)")
        }
    }

    @Test func `a hash is taken as it is`() throws {
        let found = try user("username,domain,ha1", "bob,example.org,\(Self.md5.uppercased())")
        #expect(found.name == "bob@example.org" && found.ha1MD5 == Self.md5 && found.ha1SHA256 == nil)
        let shared = UserRealms(domains: ["example.net"], realms: Realms(common: "pbx"))
        let other = try user("user,domain,realm,ha1", "bob,example.net,pbx,\(Self.md5)", shared)
        #expect(other.name == "bob@pbx")
    }

    @Test func `what is exported is taken back`() throws {
        let sha = String(repeating: "ab", count: 32)
        let found = try user("user,realm,ha1,ha1_sha256,ha1_sha512_256", "'+4930,example.net,\(Self.md5),\(sha),\(sha)")
        #expect(found.name == "+4930@example.net" && found.ha1SHA256 == sha && found.ha1SHA512_256 == sha)
    }

    @Test(arguments: [
        ("bob;example.net;secret", "fields are separated by commas"), ("user,domain", "password or ha1"),
        ("domain,password", "must name the columns"), ("user,user,password", "the column user occurs twice"),
        ("user,pasword", "column 2 is unknown"), ("bob,example.net,secret", "column 1 is unknown"),
        ("", "column 1 is unknown"),
    ])
    func `a first line without names is refused`(head: String, sentence: String) {
        #expect(refusal(head, []).map { $0.contains(sentence) } == true, "\(refusal(head, []) ?? "")")
        // If the column names are missing, the first line is a user, and the error must not show this user's password.
        #expect(refusal(head, [])?.contains("secret") == false)
    }

    @Test(arguments: [
        ("bob,example.net,", "the password is empty"), (",example.net,secret", "the user is empty"),
        ("bob,example.net", "expected 3 fields, found 2"), ("bob,example.net,a,b", "expected 3 fields, found 4"),
        ("bob,example.com,secret", "example.com is not one of this daemon's domains (example.net, Example.org)"),
        ("\"bob,example.net,secret", "a quote is not closed"), ("b\"ob,example.net,secret", "a quote inside a field"),
        ("=cmd|' /C calc'!A0,example.net,secret", "begins like the formula"), ("@x,example.net,s", "contains an @"),
        ("+1+1,example.net,secret", "begins like the formula"), ("a@b,example.net,secret", "contains an @"),
        ("a/b,example.net,secret", "control character"), ("a\u{1}b,example.net,secret", "control character"),
        ("..,example.net,\(String(repeating: "x", count: 513))", "more than 512 bytes"),
        ("\(String(repeating: "x", count: 600)),example.net,secret", "longer than 512 bytes"),
    ])
    func `a row that is wrong is refused with its reason`(row: String, sentence: String) {
        let found = refusal("user,domain,password", row)
        #expect(found?.contains(sentence) == true, "\(found ?? "taken")")
        // The report of the import must not show the password.
        #expect(found?.contains("secret") != true)
    }

    @Test func `bytes that are no text are refused`() {
        let bad = Array("bob,example.net,".utf8) + [0xff, 0xfe]
        #expect(refusal("user,domain,password", bad) == "a field is not UTF-8")
        #expect(refusal("user,domain,password", "bob,example.net,a\0b") == "a field contains a NUL byte")
    }

    @Test(arguments: [
        ("bob,,", "no password and no ha1"), ("bob,,abc", "32 hexadecimal digits"),
        ("bob,,\(String(repeating: "g", count: 32))", "32 hexadecimal digits"),
        ("bob,secret,\(Self.md5)", "the ha1 does not match the password for the realm example.net"),
    ])
    func `a hash that is wrong is refused`(row: String, sentence: String) {
        let found = refusal("user,password,ha1", row)
        #expect(found?.contains(sentence) == true, "\(found ?? "taken")")
    }

    @Test func `users of a tenant are hashed for its realm and named after its domain`() throws {
        let realms = UserRealms(
            domains: ["example.net", "a.example"],
            realms: Realms(common: nil, tenants: [ByteString("a.example"): "pbx"]))
        var table = try UserTable(head: Array("user,domain,password".utf8), realms: realms, takesMD5: true)
        let own = try table.user(Array("100,A.example,secret".utf8), line: 2)
        #expect(own.name == "100@a.example")
        #expect(
            own.ha1MD5
                == (try PasswordHasher().credentials(of: "100", realm: Realm(ByteString("pbx")), password: "secret")
                    .ha1MD5))
        let other = try table.user(Array("100,example.net,secret".utf8), line: 3)
        #expect(other.name == "100@example.net" && other.ha1MD5 != own.ha1MD5)
        // The import accepts a hash for the realm of the PBX unchanged.
        #expect(refusal("user,domain,realm,ha1", "7,a.example,pbx,\(Self.md5)", realms: realms) == nil)
        #expect(refusal("user,domain,realm,ha1", "8,a.example,a.example,\(Self.md5)", realms: realms) != nil)
    }

    @Test func `a hash for another realm is refused`() {
        let shared = UserRealms(domains: ["example.net"], realms: Realms(common: "pbx"))
        for (head, row, realms, theirs, ours) in [
            ("user,realm,ha1", "bob,asterisk,", Self.realms, "asterisk", "example.net"),
            ("user,domain,realm,ha1", "bob,example.net,asterisk,", Self.realms, "asterisk", "example.net"),
            ("user,domain,ha1", "bob,example.net,", shared, "example.net", "pbx"),
        ] {
            let found = refusal(head, row + Self.md5, realms: realms)
            #expect(
                found
                    == "the ha1 is for the realm \(theirs), and the realm of example.net is \(ours): phones could not log in"
            )
        }
        #expect(
            refusal("user,ha1", "bob,\(Self.md5)", takesMD5: false)?.contains("digest.algorithms leaves out") == true)
    }

    @Test func `a user who stands there twice is refused the second time`() throws {
        var table = try table("user,domain,password")
        _ = try table.user(Array("bob,example.net,a".utf8), line: 2)
        _ = try table.user(Array("bob,example.org,a".utf8), line: 3)
        _ = try table.user(Array("Bob,example.net,a".utf8), line: 4)
        #expect(throws: UserTable.Refusal("bob@example.net is already in line 2")) {
            _ = try table.user(Array("bob,example.net,b".utf8), line: 5)
        }
    }

    @Test func `users with MD5 alone are counted`() throws {
        var table = try table("user,password,ha1")
        _ = try table.user(Array("a,secret,".utf8), line: 2)
        #expect(table.usersOfMD5 == 0)
        _ = try table.user(Array("b,,\(Self.md5)".utf8), line: 3)
        #expect(table.usersOfMD5 == 1)
    }
}
