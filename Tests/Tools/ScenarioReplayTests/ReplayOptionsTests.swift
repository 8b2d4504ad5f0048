import Testing

@testable import ScenarioReplay

@Suite struct ReplayOptionsTests {
    @Test func `names and a target are read`() throws {
        let options = try ReplayOptions(["a", "--target", "127.0.0.1:5060", "b", "--pbx-port", "5070"])
        #expect(options.names == ["a", "b"])
        #expect(options.target?.address == "127.0.0.1:5060")
        #expect(options.target?.pbxPort == 5070)
    }

    @Test(arguments: [["--what"], ["--target"], ["--record", "f"], ["--target", "a:1", "--pbx-port", "x"]])
    func `a wrong word is refused`(words: [String]) {
        #expect(throws: ReplayError.self) { try ReplayOptions(words) }
    }

    @Test func `used ports are read from the kernel's table`() {
        let table = """
              sl  local_address rem_address   st
               0: 0100007F:13C4 00000000:0000 0A 00000000
               1: 00000000000000000000000001000000:1F90 0 0
            """
        #expect(LocalPorts.ports(in: table) == [5060, 8080])
    }

    @Test func `a program is looked for in the folders of the path`() {
        #expect(Child.isInstalled("sh", path: "/nowhere:/bin"))
        #expect(!Child.isInstalled("sh", path: "/nowhere"))
        #expect(!Child.isInstalled("no-such-phone", path: "/bin:/usr/bin"))
        #expect(!Child.isInstalled("sh", path: nil))
    }

    @Test func `a scenario is skipped without the program that it needs`() throws {
        let replay = Replay(try ReplayOptions([]), program: "scenario-replay")
        func reason(_ needs: String) throws -> String? {
            let text = "actors: [{name: a, run: phone, needs: \(needs), kill: {}}]"
            return replay.reasonToSkip(try Scenario.read(Array(text.utf8), name: "scenario", file: "flow.yaml"))
        }
        #expect(try reason("no-such-phone") == "no-such-phone is not installed")
        #expect(try reason("sh") == nil)
    }

    @Test func `a scenario is skipped without the API that it asks`() throws {
        func reason(_ request: String, _ words: String...) throws -> String? {
            let replay = Replay(
                try ReplayOptions(["--target", "127.0.0.1:5060", "--config", "c"] + words), program: "scenario-replay")
            let text = "actors: [{name: a, play: x}]\nrequests: [\(request)]"
            return replay.reasonToSkip(try Scenario.read(Array(text.utf8), name: "scenario", file: "flow.yaml"))
        }
        #expect(try reason("{send: GET /healthz}") == "it needs --api")
        #expect(try reason("{send: GET /healthz}", "--api", "127.0.0.1:8088") == nil)
        #expect(try reason("{send: GET /x, key: admin}", "--api", "a:1") == "it needs --api-key")
        #expect(try reason("{send: GET /x, key: admin}", "--api", "a:1", "--api-key", "k") == nil)
    }

    @Test func `the sandbox's addresses are read from its greeting`() {
        let found = Stage.addresses(in: "listening tls=127.0.0.1:1 plain=127.0.0.1:2\n")
        #expect(found == ["tls": "127.0.0.1:1", "plain": "127.0.0.1:2"])
    }
}
