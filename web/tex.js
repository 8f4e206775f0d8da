// The names of TeX that math.js knows. A name that is missing here leaves its formula as written.

const pairs = (text) =>
    Object.fromEntries(
        text
            .trim()
            .split(/\s+/)
            .map((pair) => pair.split('=')),
    );

// Letters and signs that are identifiers.
export const letters = pairs(`
    alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι
    kappa=κ lambda=λ mu=μ nu=ν xi=ξ pi=π varpi=ϖ rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ
    phi=ϕ varphi=φ chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ
    Phi=Φ Psi=Ψ Omega=Ω hbar=ℏ ell=ℓ Re=ℜ Im=ℑ aleph=ℵ infty=∞ partial=∂ nabla=∇ emptyset=∅
    varnothing=∅ angle=∠ degree=° circ=∘ top=⊤ bot=⊥ dots=… ldots=… cdots=⋯ vdots=⋮ ddots=⋱
    imath=ı jmath=ȷ prime=′ square=□ blacksquare=■ checkmark=✓ dagger=† ddagger=‡`);

export const operators = pairs(`
    times=× div=÷ cdot=⋅ ast=∗ star=⋆ pm=± mp=∓ oplus=⊕ ominus=⊖ otimes=⊗ odot=⊙ bullet=∙ wedge=∧
    land=∧ vee=∨ lor=∨ neg=¬ lnot=¬ cap=∩ cup=∪ setminus=∖ le=≤ leq=≤ leqslant=⩽ ge=≥ geq=≥
    geqslant=⩾ ll=≪ gg=≫ ne=≠ neq=≠ equiv=≡ approx=≈ sim=∼ simeq=≃ cong=≅ propto=∝ doteq=≐ in=∈
    notin=∉ ni=∋ subset=⊂ subseteq=⊆ supset=⊃ supseteq=⊇ forall=∀ exists=∃ nexists=∄ to=→
    rightarrow=→ leftarrow=← gets=← leftrightarrow=↔ Rightarrow=⇒ Leftarrow=⇐ Leftrightarrow=⇔
    implies=⟹ impliedby=⟸ iff=⟺ mapsto=↦ longrightarrow=⟶ uparrow=↑ downarrow=↓ mid=∣ nmid=∤
    parallel=∥ perp=⊥ therefore=∴ because=∵ colon=: models=⊨ vdash=⊢ prec=≺ succ=≻ lt=< gt=>`);

// Large ones; the limits of those of the first list stand above and below in a displayed formula.
export const sums = pairs('sum=∑ prod=∏ coprod=∐ bigcup=⋃ bigcap=⋂ bigoplus=⨁ bigotimes=⨂');
export const integrals = pairs('int=∫ iint=∬ iiint=∭ oint=∮');

const words = (text) => new Set(text.trim().split(/\s+/));
export const limits = words('lim limsup liminf max min sup inf argmax argmin det gcd Pr');
export const functions = words(`sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan
    log ln lg exp deg dim hom ker arg mod`);

export const fences = pairs(
    'langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ lvert=| rvert=| lVert=‖ rVert=‖ vert=| ' +
        'Vert=‖ lbrace={ rbrace=} lbrack=[ rbrack=]',
);
export const accents = pairs(
    'hat=^ widehat=^ bar=¯ tilde=~ widetilde=~ vec=→ dot=˙ ddot=¨ check=ˇ acute=´ grave=` ' +
        'overline=‾ overrightarrow=→ overbrace=⏞',
);
export const below = pairs('underline=_ underbrace=⏟');

// In em. Others, such as \limits, change only how large a part is, and are left out.
export const spaces = { ',': 0.17, ':': 0.22, ';': 0.28, '!': -0.17, ' ': 0.25, quad: 1, qquad: 2 };
export const ignored = words(`displaystyle textstyle scriptstyle limits nolimits big Big bigg Bigg
    bigl bigr Bigl Bigr biggl biggr middle nonumber notag`);

export const texts = words('text textrm textbf textit mbox mathrm mathsf mathtt');
export const alphabets = {
    mathbb: 'double-struck',
    mathbf: 'bold',
    boldsymbol: 'bold',
    bm: 'bold',
    mathcal: 'script',
    mathscr: 'script',
    mathfrak: 'fraktur',
    mathit: 'italic',
};

// The signs around the rows of an environment.
export const environments = {
    matrix: ['', ''],
    smallmatrix: ['', ''],
    pmatrix: ['(', ')'],
    bmatrix: ['[', ']'],
    Bmatrix: ['{', '}'],
    vmatrix: ['|', '|'],
    Vmatrix: ['‖', '‖'],
    cases: ['{', ''],
    aligned: ['', ''],
    align: ['', ''],
    'align*': ['', ''],
    gathered: ['', ''],
    gather: ['', ''],
    'gather*': ['', ''],
    equation: ['', ''],
    'equation*': ['', ''],
    array: ['', ''],
    split: ['', ''],
};
