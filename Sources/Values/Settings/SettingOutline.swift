/// One key of a settings group as text, for the sample file and the manuals.
struct SettingLine: Sendable {
    let key: String
    let help: String
    let isRequired: Bool
    /// When a change takes effect; `nil` if the key's group decides.
    let moment: ChangeMoment?
    let outline: SettingOutline
}

indirect enum SettingOutline: Sendable {
    struct Named: Sendable {
        let name: String
        let lines: [SettingLine]
    }

    /// A key with a single value. If `text` is `nil`, the key has no default, and the sample file shows `example`.
    case value(type: String, text: String?, example: String?)
    case group([SettingLine])
    case named([Named], example: Named)
}

extension SettingsGroup {
    var outline: [SettingLine] {
        Self.schema.map { setting in
            SettingLine(
                key: setting.key, help: setting.help, isRequired: setting.isRequired, moment: setting.ownMoment,
                outline: setting.outline(self))
        }
    }
}
